-- What does a setting change? Devices are compared with themselves under the same kernel and another value.
with used as (
  select run, value from environment where name = :setting),
level as (
  select board, device, kernel, part, result.name, params, larger_is_better, used.value as value,
         count(*) as runs, median(coalesce(p99, median)) as level
  from result join used on used.run = result.run
  where result.name = :name and coalesce(p99, median) > 0
  group by board, device, kernel, part, result.name, params, larger_is_better, used.value),
pair as (
  select a.board, a.device, a.name, a.params, a.value as value_before, b.value as value_after,
         ln(case when a.larger_is_better then a.level / b.level else b.level / a.level end) as change
  from level a join level b on a.board = b.board and a.device = b.device and a.kernel = b.kernel
    and a.part = b.part and a.name = b.name and a.params = b.params and a.value < b.value)
select board, name, params, value_before, value_after, count(distinct device) as devices,
       exp(median(change)) - 1 as median_change, exp(min(change)) - 1 as least, exp(max(change)) - 1 as most
from pair
group by board, name, params, value_before, value_after
order by board, name, params, value_before, value_after
