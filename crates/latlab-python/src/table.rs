//! A table of columns that Arrow's readers take without a copy.

use crate::error::latlab_error;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{Schema, ffi::FFI_ArrowSchema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Rows and columns in Arrow's memory layout. `pyarrow.table(t)`, `polars.DataFrame(t)` and DuckDB read it
/// through the Arrow C data interface without a copy.
#[pyclass(frozen, module = "latlab")]
pub struct Table {
    schema: Arc<Schema>,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// From batches of one schema.
    pub fn new(schema: Arc<Schema>, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl Table {
    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        let columns: Vec<String> = self
            .schema
            .fields()
            .iter()
            .map(|f| format!("{}: {}", f.name(), f.data_type()))
            .collect();
        format!("<latlab.Table of {} rows: {}>", self.__len__(), columns.join(", "))
    }

    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Bytes of memory that the columns take.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The Arrow PyCapsule interface: a stream of record batches that share this table's memory.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore the request; the consumer converts.
        drop(requested_schema);
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow PyCapsule interface: the types of the columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)
            .map_err(|e| latlab_error(py, e.to_string(), None))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// A `pyarrow.Table` of the same memory.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        needed(py, "pyarrow")?.call_method1("table", (slf,))
    }

    /// A `polars.DataFrame` of the same memory.
    fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        needed(py, "polars")?.call_method1("DataFrame", (slf,))
    }

    /// A `pandas.DataFrame`, by way of pyarrow; columns are copied.
    fn to_pandas<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "pandas")?;
        Self::to_pyarrow(slf)?.call_method0("to_pandas")
    }
}

/// A package that this one does not depend on.
fn needed<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if !error.is_instance_of::<pyo3::exceptions::PyModuleNotFoundError>(py) {
            return error;
        }
        let hint = format!("pip install {name}");
        latlab_error(py, format!("the Python package {name} is not installed"), Some(&hint))
    })
}
