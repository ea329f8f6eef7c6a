-- Which devices differ from the others of their board? Robust distance of a device's level from the median
-- of its board, in median absolute deviations of levels (logarithms).
with level as (
  select board, device, part, name, params, count(*) as runs, ln(median(coalesce(p99, median))) as level
  from result
  where name = :name and coalesce(p99, median) > 0
  group by board, device, part, name, params),
middle as (
  select board, part, name, params, count(*) as devices, median(level) as middle
  from level group by board, part, name, params),
distance as (
  select level.board, level.device, level.part, level.name, level.params, runs, devices, level - middle as away
  from level join middle on level.board = middle.board and level.part = middle.part
    and level.name = middle.name and level.params = middle.params),
spread as (
  select board, part, name, params, 1.4826 * median(abs(away)) as spread
  from distance group by board, part, name, params)
select distance.board, device, distance.name, distance.params, runs, devices,
       exp(away) - 1 as difference, away / greatest(spread, 0.005) as deviations
from distance join spread on distance.board = spread.board and distance.part = spread.part
  and distance.name = spread.name and distance.params = spread.params
where devices >= 5 and abs(away) > ln(1.05) and abs(away) > 3.5 * greatest(spread, 0.005)
order by abs(away) desc, device, distance.params
