//! `latlab.LatlabError`: one sentence, and what to do about it.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception, with `message` as its only argument and `hint` as an attribute. The class is Python's:
/// a class made here could not have the attribute with Python 3.9's stable interface.
pub fn latlab_error(py: Python<'_>, message: String, hint: Option<&str>) -> PyErr {
    let made = (|| {
        let class = py.import("latlab._errors")?.getattr("LatlabError")?;
        let class = class.cast_into::<PyType>()?;
        class.call1((message, hint))
    })();
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
