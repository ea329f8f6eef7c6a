//! One axis after the other: steps below half a section, then bisection at its edge.

use super::{FINEST_NS, Point, Search};

/// Points of a scan; a section that is short in a long window is met less surely.
const POINTS_MAX: u64 = 400;
/// Passes over all axes from one point.
const PASSES: u32 = 2;

impl<E> Search<'_, E> {
    /// Scans until the budget is used up.
    pub(super) fn scans(&mut self) -> Option<()> {
        loop {
            self.scanned()?;
        }
    }

    /// The largest latency from one start: all inputs away, or (every other time) at random.
    pub(super) fn scanned(&mut self) -> Option<Point> {
        let mut point =
            if self.random.next_u64() & 1 == 0 { self.away()? } else { self.random_point()? };
        if self.axes.is_empty() {
            return Some(point);
        }
        for _ in 0..PASSES {
            let before = point.latency_ns;
            let mut order: Vec<usize> = (0..self.axes.len()).collect();
            self.random.shuffle(&mut order);
            for axis in order {
                self.scan(&mut point, axis)?;
            }
            if point.latency_ns <= before {
                break;
            }
        }
        Some(point)
    }

    /// Moves the point along one axis to the largest latency of a row of steps, then to the edge beside it.
    fn scan(&mut self, point: &mut Point, axis: usize) -> Option<()> {
        let span = self.axes[axis].span();
        let step = self.axes[axis].step_ns.max(span.div_ceil(POINTS_MAX)).max(1);
        let mut places = point.places.clone();
        let mut moved = false;
        let mut place = self.below(step);
        while place < span {
            places[axis] = place;
            let latency_ns = self.at(&places)?;
            if latency_ns > point.latency_ns {
                *point = Point { places: places.clone(), latency_ns };
                moved = true;
            }
            place += step;
        }
        if moved {
            self.edge(point, axis, step)?;
        }
        Some(())
    }

    /// The latency rises the later an input begins, up to an edge less than a step later: bisection.
    fn edge(&mut self, point: &mut Point, axis: usize, step: u64) -> Option<()> {
        let mut beyond = point.places[axis].saturating_sub(step);
        let mut places = point.places.clone();
        while point.places[axis] - beyond > FINEST_NS {
            places[axis] = beyond.midpoint(point.places[axis]);
            let latency_ns = self.at(&places)?;
            if latency_ns > point.latency_ns {
                *point = Point { places: places.clone(), latency_ns };
            } else {
                beyond = places[axis];
            }
        }
        Some(())
    }
}
