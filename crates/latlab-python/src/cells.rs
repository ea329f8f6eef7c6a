//! The values of one column while they are collected, and the words of a dictionary.

use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, PrimitiveArray, StringArray, cast::AsArray,
};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use latlab_trace::Field;
use std::collections::HashMap;
use std::sync::Arc;

/// Words by number, each once.
#[derive(Clone, Debug, Default)]
pub struct Words {
    list: Vec<Box<[u8]>>,
    at: HashMap<Box<[u8]>, i32>,
    /// Places by the word's first bytes: most texts are found without hashing them.
    recent: Vec<Recent>,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    word: [u8; 16],
    at: i32,
}

/// Places of recently seen words; a power of two.
const RECENT: usize = 256;

impl Words {
    /// The word's number; a new one if it is new.
    #[inline]
    pub fn place(&mut self, word: &[u8]) -> i32 {
        let mut key = [0; 16];
        if word.len() >= key.len() {
            return self.place_slowly(word);
        }
        key[..word.len()].copy_from_slice(word);
        let number = u128::from_le_bytes(key);
        let hash = ((number ^ (number >> 64)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (hash >> 56) as usize % RECENT;
        match self.recent.get(slot) {
            Some(recent) if recent.at >= 0 && recent.word == key => return recent.at,
            Some(_) => {}
            None => self.recent = vec![Recent { word: [0; 16], at: -1 }; RECENT],
        }
        let at = self.place_slowly(word);
        self.recent[slot] = Recent { word: key, at };
        at
    }

    fn place_slowly(&mut self, word: &[u8]) -> i32 {
        if let Some(at) = self.at.get(word) {
            return *at;
        }
        let at = self.list.len() as i32;
        self.list.push(word.into());
        self.at.insert(word.into(), at);
        at
    }

    /// Adds the words of another; returns the new number of each of them.
    pub fn add_all(&mut self, other: &Self) -> Vec<i32> {
        other.list.iter().map(|word| self.place(word)).collect()
    }

    /// The words as text; what is no UTF-8 is replaced.
    pub fn array(&self) -> ArrayRef {
        let words = self.list.iter().map(|word| Some(String::from_utf8_lossy(word)));
        Arc::new(words.collect::<StringArray>())
    }
}

/// Values of one column.
#[derive(Debug)]
pub struct Cells {
    values: Values,
    /// Which rows have a value, where some have none.
    valid: Option<NullBufferBuilder>,
}

#[derive(Debug)]
enum Values {
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    /// Numbers of words.
    Word(Vec<i32>),
    /// Ends of the texts or arrays, and their bytes.
    Bytes {
        text: bool,
        ends: Vec<i32>,
        bytes: Vec<u8>,
    },
}

impl Cells {
    /// No values of a type.
    pub fn new(kind: &DataType, nullable: bool) -> Self {
        let values = match kind {
            DataType::Int8 => Values::I8(Vec::new()),
            DataType::Int16 => Values::I16(Vec::new()),
            DataType::Int32 => Values::I32(Vec::new()),
            DataType::Int64 => Values::I64(Vec::new()),
            DataType::UInt8 => Values::U8(Vec::new()),
            DataType::UInt16 => Values::U16(Vec::new()),
            DataType::UInt32 => Values::U32(Vec::new()),
            DataType::UInt64 => Values::U64(Vec::new()),
            DataType::Dictionary(..) => Values::Word(Vec::new()),
            kind => {
                Values::Bytes { text: *kind == DataType::Utf8, ends: vec![0], bytes: Vec::new() }
            }
        };
        Self { values, valid: nullable.then(|| NullBufferBuilder::new(0)) }
    }

    /// A number, in the column's width.
    #[inline]
    pub fn put(&mut self, number: u64) {
        match &mut self.values {
            Values::I8(v) => v.push(number as i8),
            Values::I16(v) => v.push(number as i16),
            Values::I32(v) | Values::Word(v) => v.push(number as i32),
            Values::I64(v) => v.push(number as i64),
            Values::U8(v) => v.push(number as u8),
            Values::U16(v) => v.push(number as u16),
            Values::U32(v) => v.push(number as u32),
            Values::U64(v) => v.push(number),
            Values::Bytes { ends, bytes, .. } => ends.push(bytes.len() as i32),
        }
        if let Some(valid) = &mut self.valid {
            valid.append_non_null();
        }
    }

    /// A field's value; returns the bytes of text that it added.
    #[inline]
    pub fn put_field(&mut self, field: &Field, payload: &[u8], words: &mut Words) -> usize {
        match &mut self.values {
            Values::Word(v) => v.push(words.place(field.text(payload))),
            Values::Bytes { text, ends, bytes } => {
                let before = bytes.len();
                match text {
                    true => {
                        bytes.extend(String::from_utf8_lossy(field.text(payload)).as_bytes());
                    }
                    false => bytes.extend(field.bytes(payload)),
                }
                ends.push(bytes.len() as i32);
                if let Some(valid) = &mut self.valid {
                    valid.append_non_null();
                }
                return bytes.len() - before;
            }
            _ => {
                self.put(field.i64(payload) as u64);
                return 0;
            }
        }
        if let Some(valid) = &mut self.valid {
            valid.append_non_null();
        }
        0
    }

    /// No value.
    pub fn put_null(&mut self) {
        let valid = self.valid.take();
        self.put(0);
        self.valid = valid;
        if let Some(valid) = &mut self.valid {
            valid.append_null();
        }
    }

    /// The values so far; none stay.
    pub fn take(&mut self) -> Self {
        let empty = match &self.values {
            Values::I8(v) => Values::I8(Vec::with_capacity(v.len())),
            Values::I16(v) => Values::I16(Vec::with_capacity(v.len())),
            Values::I32(v) => Values::I32(Vec::with_capacity(v.len())),
            Values::I64(v) => Values::I64(Vec::with_capacity(v.len())),
            Values::U8(v) => Values::U8(Vec::with_capacity(v.len())),
            Values::U16(v) => Values::U16(Vec::with_capacity(v.len())),
            Values::U32(v) => Values::U32(Vec::with_capacity(v.len())),
            Values::U64(v) => Values::U64(Vec::with_capacity(v.len())),
            Values::Word(v) => Values::Word(Vec::with_capacity(v.len())),
            Values::Bytes { text, .. } => {
                Values::Bytes { text: *text, ends: vec![0], bytes: Vec::new() }
            }
        };
        let valid = self.valid.is_some().then(|| NullBufferBuilder::new(0));
        std::mem::replace(self, Self { values: empty, valid })
    }

    /// Changes the numbers of words; those of columns that hold none of their own stay.
    pub fn renumber(&mut self, moved: &[i32]) {
        if let Values::Word(numbers) = &mut self.values
            && moved.iter().enumerate().any(|(old, new)| old as i32 != *new)
        {
            for number in numbers {
                *number = moved.get(*number as usize).copied().unwrap_or(*number);
            }
        }
    }

    /// The Arrow array, without copying the values.
    ///
    /// # Errors
    /// What Arrow says.
    pub fn array(self, words: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let nulls = self.valid.and_then(|mut valid| valid.finish());
        fn number<T: ArrowPrimitiveType>(
            values: Vec<T::Native>,
            nulls: Option<NullBuffer>,
        ) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
        }
        Ok(match self.values {
            Values::I8(v) => number::<Int8Type>(v, nulls),
            Values::I16(v) => number::<Int16Type>(v, nulls),
            Values::I32(v) => number::<Int32Type>(v, nulls),
            Values::I64(v) => number::<Int64Type>(v, nulls),
            Values::U8(v) => number::<UInt8Type>(v, nulls),
            Values::U16(v) => number::<UInt16Type>(v, nulls),
            Values::U32(v) => number::<UInt32Type>(v, nulls),
            Values::U64(v) => number::<UInt64Type>(v, nulls),
            Values::Word(v) => {
                let numbers = number::<Int32Type>(v, nulls);
                let numbers = numbers.as_primitive::<Int32Type>().clone();
                Arc::new(DictionaryArray::try_new(numbers, words.clone())?)
            }
            Values::Bytes { text, ends, bytes } => {
                let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
                match text {
                    true => Arc::new(StringArray::try_new(ends, bytes.into(), nulls)?),
                    false => Arc::new(BinaryArray::try_new(ends, bytes.into(), nulls)?),
                }
            }
        })
    }
}
