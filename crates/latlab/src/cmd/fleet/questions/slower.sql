-- Which kernel made which boards slower? Devices are compared with themselves under the kernel before.
with level as (
  select board, device, part, name, params, kernel, larger_is_better,
         min(started) as since, median(coalesce(p99, median)) as level
  from result
  where name = :name and coalesce(p99, median) > 0
  group by board, device, part, name, params, kernel, larger_is_better),
step as (
  select *, lag(kernel) over w as kernel_before, lag(level) over w as level_before
  from level
  window w as (partition by board, device, part, name, params order by since)),
ratio as (
  select *, ln(case when larger_is_better then level_before / level else level / level_before end) as change
  from step
  where level_before > 0 and kernel <> kernel_before)
select kernel, kernel_before, board, name, params, min(since) as since, count(*) as devices,
       sum(case when change > ln(1.05) then 1 else 0 end) as slower_by_5_percent,
       exp(median(change)) - 1 as median_change
from ratio
group by kernel, kernel_before, board, name, params
having exp(median(change)) > 1.02
order by median_change desc, kernel, board, params
