-- A quantile of the whole fleet from merged histograms. The interval is Woodruff's, with devices as the
-- units of sampling; beside it the spread of the devices' own quantiles, and the worst device.
with bucket as (
  select device, low, high, cast(sum(n) as double) as n
  from histogram where name = :name group by device, low, high),
merged as (
  select low, high, sum(n) as n from bucket group by low, high),
ranked as (
  select low, high, sum(n) over (order by low rows between unbounded preceding and current row) as upto,
         sum(n) over () as total
  from merged),
point as (
  select min(high) as value, max(total) as total
  from ranked where upto >= cast(:quantile as double) * total),
share as (
  select device, sum(n) as n, sum(case when high <= value then n else 0 end) as below
  from bucket cross join point group by device),
whole as (
  select sum(below) / sum(n) as reached, sum(n) as total, cast(count(*) as double) as devices from share),
spread as (
  select max(devices) as devices,
         sqrt(max(devices) / nullif(max(devices) - 1, 0) * sum((below - reached * n) * (below - reached * n)))
           / max(total) as error
  from share cross join whole),
own_ranked as (
  select device, high,
         sum(n) over (partition by device order by low rows between unbounded preceding and current row) as upto,
         sum(n) over (partition by device) as total
  from bucket),
own as (
  select device, min(high) as value from own_ranked
  where upto >= cast(:quantile as double) * total group by device),
worst as (
  select device, value, row_number() over (order by value desc, device) as place from own)
select cast(devices as bigint) as devices, cast(total as bigint) as samples, point.value as quantile,
       (select min(high) from ranked
        where upto >= (cast(:quantile as double) - 1.96 * (select error from spread)) * total) as low_95,
       (select min(high) from ranked
        where upto >= (cast(:quantile as double) + 1.96 * (select error from spread)) * total
          and cast(:quantile as double) + 1.96 * (select error from spread) < 1) as high_95,
       (select median(value) from own) as median_of_devices,
       (select device from worst where place = 1) as worst_device,
       (select value from worst where place = 1) as worst_quantile
from point cross join spread
