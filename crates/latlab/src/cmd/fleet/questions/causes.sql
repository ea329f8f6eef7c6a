-- Which causes and problems appeared with which kernel, on how many devices and in which share of its runs?
with runs as (
  select board, kernel, count(*) as runs from run group by board, kernel)
select finding, finding.kernel, finding.board, count(distinct device) as devices,
       count(distinct run) as runs_with_it, max(runs.runs) as runs,
       count(distinct run) / cast(max(runs.runs) as double) as share, min(started) as since
from finding join runs on runs.board = finding.board and runs.kernel = finding.kernel
where severity in ('problem', 'warning')
group by finding, finding.kernel, finding.board
order by finding, since, finding.kernel, finding.board
