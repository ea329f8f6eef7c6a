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

    /// The largest latency from one start: all inputs away, or (every other time) at random. Edges come last: beside one,
    /// a change of any other input may fall over it.
    pub(super) fn scanned(&mut self) -> Option<Point> {
        let mut point =
            if self.random.next_u64() & 1 == 0 { self.away()? } else { self.random_point()? };
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        for _ in 0..PASSES {
            let before = point.latency_ns;
            self.random.shuffle(&mut order);
            for &axis in &order {
                self.scan(&mut point, axis)?;
            }
            if point.latency_ns <= before {
                break;
            }
        }
        for _ in 0..PASSES {
            self.random.shuffle(&mut order);
            for &axis in &order {
                self.edge(&mut point, axis)?;
            }
        }
        Some(point)
    }

    fn step(&self, axis: usize) -> u64 {
        let span = self.axes[axis].span();
        self.axes[axis].step_ns.max(span.div_ceil(POINTS_MAX)).max(1)
    }

    /// Moves the point along one axis to the largest latency of a row of steps.
    fn scan(&mut self, point: &mut Point, axis: usize) -> Option<()> {
        let (span, step) = (self.axes[axis].span(), self.step(axis));
        let mut places = point.places.clone();
        let mut place = self.below(step);
        while place < span {
            places[axis] = place;
            let latency_ns = self.at(&places)?;
            if latency_ns > point.latency_ns {
                *point = Point { places: places.clone(), latency_ns };
            }
            place += step;
        }
        Some(())
    }

    /// The latency rises the later an input begins, up to an edge less than a step later: bisection.
    fn edge(&mut self, point: &mut Point, axis: usize) -> Option<()> {
        let mut beyond = point.places[axis].saturating_sub(self.step(axis));
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
