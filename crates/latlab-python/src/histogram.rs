//! Histograms: merged, and their quantiles with intervals.

use crate::error::latlab_error;
use latlab_stats::histogram;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Counts of integer values in HdrHistogram's buckets.
#[pyclass(frozen, module = "latlab", eq)]
#[derive(PartialEq)]
pub struct Histogram(histogram::Histogram);

#[pymethods]
impl Histogram {
    /// The histogram of some values.
    #[new]
    #[pyo3(signature = (values = Vec::new()))]
    fn new(values: Vec<u64>) -> Self {
        Self(histogram::Histogram::of(values))
    }

    /// A histogram as `run.json` has it.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        let read = serde_json::from_str(text).map(Self);
        read.map_err(|e| latlab_error(py, format!("not a histogram: {e}"), None))
    }

    /// All values of this one and of others.
    #[pyo3(signature = (*others))]
    fn merge(&self, others: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let mut all = self.0.clone();
        for other in others {
            all.merge(&other.cast_into::<Self>()?.get().0);
        }
        Ok(Self(all))
    }

    fn __add__(&self, other: &Bound<'_, Self>) -> Self {
        let mut all = self.0.clone();
        all.merge(&other.get().0);
        Self(all)
    }

    /// Number of values.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.count).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        match self.0.count {
            0 => "<latlab.Histogram: empty>".into(),
            n => format!("<latlab.Histogram of {n} values, {} to {}>", self.0.min, self.0.max),
        }
    }

    /// Smallest value, exact.
    #[getter]
    fn min(&self) -> Option<u64> {
        (self.0.count > 0).then_some(self.0.min)
    }

    /// Largest value, exact.
    #[getter]
    fn max(&self) -> Option<u64> {
        (self.0.count > 0).then_some(self.0.max)
    }

    /// Arithmetic mean.
    #[getter]
    fn mean(&self) -> Option<f64> {
        self.0.mean()
    }

    /// Smallest value and count of each bucket, rising.
    #[getter]
    fn buckets(&self) -> Vec<(u64, u64)> {
        self.0.buckets.clone()
    }

    /// The quantile with its interval; `None` where there are too few values for one.
    #[pyo3(signature = (q, confidence = 0.95))]
    fn quantile<'py>(
        &self,
        py: Python<'py>,
        q: f64,
        confidence: f64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inside = |name: &str, value: f64, is: bool| match is {
            true => Ok(()),
            false => Err(latlab_error(
                py,
                format!("{name} {value}: not between 0 and 1"),
                Some("write p99 as 0.99"),
            )),
        };
        inside("the quantile", q, (0.0..=1.0).contains(&q))?;
        inside("the confidence", confidence, confidence > 0.0 && confidence < 1.0)?;
        let Some(found) = self.0.quantile_with_interval(q, confidence) else { return Ok(None) };
        let class = py.import("latlab._run")?.getattr("Quantile")?;
        class.call1((found.q, found.value, found.low, found.high)).map(Some)
    }

    /// Number of values above a limit, to the resolution of the buckets.
    fn count_above(&self, limit: u64) -> u64 {
        self.0.count_above(limit)
    }
}
