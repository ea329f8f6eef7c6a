-- A quantile of the whole fleet from merged histograms. Its 95 % interval is over devices and nights (one device:
-- its nights, or its runs), of which it needs five; beside it the devices' own quantiles, and the worst device.
with whole as (
  select distinct run as id, part as of from histogram
  where name = :name and concat(',', params) not like '%,cpu=%'),
-- Results of single CPUs only where a run has none of all CPUs.
bucket as (
  select board, device, low, high, cast(sum(n) as double) as n
  from histogram left join whole on run = id and part = of
  where name = :name and kernel like :kernel escape '#' and (id is null or concat(',', params) not like '%,cpu=%')
  group by board, device, low, high),
merged as (
  select low, high, sum(n) as n from bucket group by low, high),
ranked as (
  select low, high, sum(n) over (order by low rows between unbounded preceding and current row) as upto,
         sum(n) over () as total
  from merged),
point as (
  select min(case when upto >= cast(:quantile as double) * total then high end) as value,
         max(total) as total, max(high) as last
  from ranked),
-- Above the quantile; in its bucket, where that is the last one.
measured as (
  select board, device, substr(started, 1, 10) as night, run, cast(sum(n) as double) as n,
         cast(sum(case when high > value or high = last then n else 0 end) as double) as above
  from histogram left join whole on run = id and part = of cross join point
  where name = :name and kernel like :kernel escape '#' and (id is null or concat(',', params) not like '%,cpu=%')
  group by board, device, substr(started, 1, 10), run),
unit as (
  select 'device' as kind, sum(n) as n, sum(above) as above from measured group by board, device
  union all select 'night' as kind, sum(n) as n, sum(above) as above from measured group by night
  union all select 'run' as kind, sum(n) as n, sum(above) as above from measured group by run),
number as (
  select sum(case when kind = 'device' then 1 else 0 end) as devices,
         sum(case when kind = 'night' then 1 else 0 end) as nights,
         sum(case when kind = 'run' then 1 else 0 end) as runs,
         sum(case when kind = 'run' then n else 0 end) as total,
         sum(case when kind = 'run' then above else 0 end) as above
  from unit),
-- What the share above would be without one unit; null where the unit has all samples above.
jackknife as (
  select kind, ln(nullif(number.above - unit.above, 0) / nullif(number.total - unit.n, 0))
               - ln(nullif(number.above, 0) / number.total) as away
  from unit cross join number),
variance as (
  select kind, cast(count(*) as double) as units,
         case when count(away) = count(*) then (count(*) - 1e0) / count(*) * sum(away * away) end as variance
  from jackknife group by kind),
used as (
  select sum(variance.variance) as variance, count(*) - count(variance.variance) as unknown,
         sum(variance.variance * variance.variance / (units - 1)) as of_variance, min(units) - 1 as least
  from variance cross join number
  where units >= 5 and (kind = 'device' or kind = 'night' and (devices >= 5 or devices = 1)
                        or kind = 'run' and devices = 1 and nights = 1)),
freedom as (
  select variance, coalesce(variance * variance / nullif(of_variance, 0), least) as f from used where unknown = 0),
-- Student's t at 97.5 %, times the standard error; at least that of independent samples.
wide as (
  select (1.959964e0 + (2.372271e0 + (2.822499e0 + (2.555850e0 + 1.589534e0 / f) / f) / f) / f)
           * sqrt(greatest(variance, 1 / greatest(above, 1e0))) as wide
  from freedom cross join number),
ends as (
  select 1 - (1 - cast(:quantile as double)) * exp(wide) as below,
         1 - (1 - cast(:quantile as double)) * exp(-wide) as upper from wide),
own_ranked as (
  select board, device, high,
         sum(n) over (partition by board, device order by low
                      rows between unbounded preceding and current row) as upto,
         sum(n) over (partition by board, device) as total
  from bucket),
own as (
  select board, device, min(high) as value from own_ranked
  where upto >= cast(:quantile as double) * total group by board, device),
worst as (
  select device, value, row_number() over (order by value desc, device) as place from own)
select cast(devices as bigint) as devices, cast(nights as bigint) as nights, cast(point.total as bigint) as samples,
       point.value as quantile,
       (select min(low) from ranked cross join ends where upto >= below * total) as low_95,
       (select min(high) from ranked cross join ends
        where upto >= upper * total and (1 - upper) * total >= 1) as high_95,
       case when devices >= 5 and nights >= 5 then 'devices and nights' when devices >= 5 then 'devices'
            when devices > 1 then 'none: fewer than 5 devices'
            when nights >= 5 then 'nights' when nights > 1 then 'none: fewer than 5 nights'
            when runs >= 5 then 'runs' else 'none: fewer than 5 runs' end as interval_over,
       (select median(value) from own) as median_of_devices,
       (select device from worst where place = 1) as worst_device,
       (select value from worst where place = 1) as worst_quantile
from point cross join number
where point.total > 0
