//! `latlab.LatlabError`: one sentence, and what to do about it.

use latlab_model::control;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A sentence as Python prints it, in one line: whoever wrote the file chose a part of its words, and Python hands
/// them to the terminal as they are.
pub fn one_line(sentence: &str) -> String {
    control::clean(sentence).replace('\n', "␊")
}

/// What cannot be done, while Python is not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    message: String,
    hint: Option<String>,
}

impl Refusal {
    /// A sentence, and what to do about it.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }

    /// As Python's exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        latlab_error(py, self.message, self.hint.as_deref())
    }
}

/// The exception, with `message` as its only argument and `hint` as an attribute. The class is Python's:
/// a class made here could not have the attribute with Python 3.9's stable interface.
pub fn latlab_error(py: Python<'_>, message: String, hint: Option<&str>) -> PyErr {
    let made = (|| {
        let class = py.import("latlab._errors")?.getattr("LatlabError")?;
        let class = class.cast_into::<PyType>()?;
        class.call1((one_line(&message), hint.map(one_line)))
    })();
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
