-- Is one device ill, or its whole board? The last 5 runs of each device against the 20 before them.
with aged as (
  select board, device, part, name, params, larger_is_better, kernel, coalesce(p99, median) as level,
         row_number() over (partition by board, device, part, name, params order by started desc, run) as age
  from result
  where name = :name and coalesce(p99, median) > 0),
recent as (
  select board, device, part, name, params, larger_is_better,
         median(case when age <= 5 then level end) as level,
         median(case when age > 5 then level end) as level_before
  from aged where age <= 25
  group by board, device, part, name, params, larger_is_better),
change as (
  select *, case when larger_is_better then level_before / level else level / level_before end - 1 as change
  from recent where level_before > 0),
worst as (
  select *, row_number() over (partition by board, part, name, params order by change desc, device) as place
  from change)
select board, name, params, count(*) as devices,
       sum(case when change > 0.05 then 1 else 0 end) as slower,
       median(change) as median_change,
       max(case when place = 1 then device end) as worst_device, max(change) as worst_change,
       case when sum(case when change > 0.05 then 1 else 0 end) = 0 then 'neither'
            when 2 * sum(case when change > 0.05 then 1 else 0 end) > count(*) and count(*) > 1 then 'board'
            else 'device' end as verdict
from worst
group by board, part, name, params
order by board, name, params
