//! Run segments as a table.

use crate::cells::Words;
use crate::table::Table;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use latlab_model::event::Names;
use latlab_model::sched::schedule::Slice;
use std::sync::Arc;

/// Columns, one value a segment.
#[derive(Debug, Default)]
pub struct Segments {
    times: Vec<u64>,
    cpus: Vec<i32>,
    tids: Vec<i32>,
    names: Vec<i32>,
    prios: Vec<i32>,
    off: Vec<Option<u64>>,
    ready: Vec<Option<u64>>,
    woken: Vec<bool>,
    run: Vec<u64>,
    ended: Vec<i32>,
    next: Vec<i32>,
    doubtful: Vec<bool>,
    words: Words,
    ends: Words,
}

impl Segments {
    /// Adds a segment that ended.
    pub fn push(&mut self, slice: &Slice, names: &Names) {
        self.times.push(slice.end.0);
        self.cpus.push(i32::try_from(slice.cpu).unwrap_or(i32::MAX));
        self.tids.push(slice.task.tid.0);
        self.names.push(self.words.place(names.get(slice.task.name).as_bytes()));
        self.prios.push(slice.task.prio);
        self.off.push(slice.off.map(|ns| ns.0));
        self.ready.push(slice.delay.map(|ns| ns.0));
        self.woken.push(slice.woken);
        self.run.push(slice.run().0);
        self.ended.push(self.ends.place(slice.why.word().as_bytes()));
        self.next.push(slice.next.tid.0);
        self.doubtful.push(slice.doubtful);
    }

    /// The table.
    ///
    /// # Errors
    /// What Arrow says.
    pub fn table(self) -> Result<Table, ArrowError> {
        let words = |numbers: Vec<i32>, words: &Words| -> Result<ArrayRef, ArrowError> {
            let numbers = PrimitiveArray::<Int32Type>::from(numbers);
            Ok(Arc::new(DictionaryArray::try_new(numbers, words.array())?))
        };
        let some = |ns: Vec<Option<u64>>| -> ArrayRef {
            Arc::new(ns.into_iter().collect::<PrimitiveArray<UInt64Type>>())
        };
        let small = |numbers: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(numbers)) };
        let long = |numbers: Vec<u64>| -> ArrayRef { Arc::new(UInt64Array::from(numbers)) };
        let truth = |values: Vec<bool>| -> ArrayRef { Arc::new(BooleanArray::from(values)) };
        let columns = [
            ("time_ns", false, long(self.times)),
            ("cpu", false, small(self.cpus)),
            ("tid", false, small(self.tids)),
            ("name", false, words(self.names, &self.words)?),
            ("prio", false, small(self.prios)),
            ("off_ns", true, some(self.off)),
            ("ready_ns", true, some(self.ready)),
            ("woken", false, truth(self.woken)),
            ("run_ns", false, long(self.run)),
            ("ended", false, words(self.ended, &self.ends)?),
            ("next", false, small(self.next)),
            ("doubtful", false, truth(self.doubtful)),
        ];
        let field = |(name, nullable, array): &(&str, bool, ArrayRef)| {
            Field::new(*name, array.data_type().clone(), *nullable)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|column| column.2).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        Ok(Table::new(schema, vec![batch]))
    }
}
