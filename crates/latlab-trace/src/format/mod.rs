//! What each event id means: the kernel's `format` files, parsed once.
//!
//! ```text
//! name: sched_switch
//! ID: 372
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2;   signed:0;
//!     …
//!     field:char prev_comm[16];           offset:8;   size:16;  signed:0;
//!
//! print fmt: "prev_comm=%s …", REC->prev_comm, …
//! ```
//!
//! A file carries some 2,300 of them and uses a few: only name and number are
//! read at first, the fields when they are asked for.

mod field;

pub(crate) use field::sign_extend;
pub use field::{Field, FieldKind, Value};

use crate::Endian;
use crate::names::IntMap;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// One kind of event.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// Number in `common_type`.
    pub id: u16,
    /// Subsystem (`sched`, `irq`, `ftrace`…).
    pub system: Box<str>,
    /// Name without the subsystem.
    pub name: Box<str>,
    text: Box<str>,
    endian: Endian,
    fields: OnceLock<Fields>,
}

#[derive(Clone, Debug)]
struct Fields {
    all: Vec<Field>,
    /// How many at the front are `common_…`.
    common: usize,
}

impl EventFormat {
    /// From the text of a `format` file; `None` if it has no name or number.
    pub fn parse(system: &str, text: &str, endian: Endian) -> Option<Self> {
        let mut name = None;
        let mut id = None;
        for line in text.lines() {
            if let Some(n) = line.strip_prefix("name:") {
                name = Some(n.trim());
            } else if let Some(n) = line.strip_prefix("ID:") {
                id = n.trim().parse::<u16>().ok();
                break;
            }
        }
        Some(Self {
            id: id?,
            system: system.into(),
            name: name?.into(),
            text: text.into(),
            endian,
            fields: OnceLock::new(),
        })
    }

    /// The `format` file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn parsed(&self) -> &Fields {
        self.fields.get_or_init(|| {
            let all: Vec<Field> =
                self.text.lines().filter_map(|l| Field::parse(l, self.endian)).collect();
            let common = all.iter().take_while(|f| f.name.starts_with("common_")).count();
            Fields { all, common }
        })
    }

    /// Every field, the `common_…` ones first.
    pub fn fields(&self) -> &[Field] {
        &self.parsed().all
    }
    /// The fields that only this event has.
    pub fn own_fields(&self) -> &[Field] {
        let p = self.parsed();
        &p.all[p.common..]
    }
    /// The fields that every event has (`common_type`, `common_flags`, `common_preempt_count`, `common_pid`, …).
    pub fn common_fields(&self) -> &[Field] {
        let p = self.parsed();
        &p.all[..p.common]
    }
    /// A field by name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields().iter().find(|f| &*f.name == name)
    }
    /// What follows `print fmt:`, without the white space around it.
    pub fn print_fmt(&self) -> &str {
        let text = self.text();
        text.find("print fmt:").map_or("", |at| text[at + "print fmt:".len()..].trim())
    }
    /// `system:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

/// Every kind of event that a trace knows. A clone shares the formats and their parsed fields.
#[derive(Clone, Debug, Default)]
pub struct Formats(Arc<Table>);

#[derive(Clone, Debug, Default)]
struct Table {
    all: Vec<EventFormat>,
    by_id: IntMap<u32, u32>,
    by_name: HashMap<Box<str>, u32>,
}

impl Formats {
    /// Adds one; of two with the same number the later is ignored and false returned.
    pub fn add(&mut self, format: EventFormat) -> bool {
        let table = Arc::make_mut(&mut self.0);
        let at = table.all.len() as u32;
        if table.by_id.contains_key(&u32::from(format.id)) {
            return false;
        }
        table.by_id.insert(u32::from(format.id), at);
        table.by_name.entry(format.name.clone()).or_insert(at);
        table.all.push(format);
        true
    }
    /// By number.
    #[inline]
    pub fn get(&self, id: u16) -> Option<&EventFormat> {
        self.0.by_id.get(&u32::from(id)).map(|at| &self.0.all[*at as usize])
    }
    /// By name, or by `system:name` (`system/name`).
    pub fn find(&self, name: &str) -> Option<&EventFormat> {
        if let Some((system, name)) = name.split_once([':', '/']) {
            return self.0.all.iter().find(|f| &*f.name == name && &*f.system == system);
        }
        self.0.by_name.get(name).map(|at| &self.0.all[*at as usize])
    }
    /// All of them, in the file's order.
    pub fn iter(&self) -> std::slice::Iter<'_, EventFormat> {
        self.0.all.iter()
    }
    /// Number of kinds.
    pub fn len(&self) -> usize {
        self.0.all.len()
    }
    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.0.all.is_empty()
    }
}

/// The formats of the file that was read before: many captures of one recording have the same, and
/// parsing them takes longer than reading a small capture.
#[derive(Debug, Default)]
pub struct KnownFormats {
    endian: Option<Endian>,
    sections: [Vec<u8>; 2],
    formats: Formats,
}

impl KnownFormats {
    /// The formats, where these sections hold the same bytes.
    pub(crate) fn get(&self, sections: [&[u8]; 2], endian: Endian) -> Option<Formats> {
        let is_same = self.endian == Some(endian)
            && self.sections[0] == sections[0]
            && self.sections[1] == sections[1];
        is_same.then(|| self.formats.clone())
    }

    /// Keeps what was parsed from two sections.
    pub(crate) fn keep(&mut self, sections: [&[u8]; 2], endian: Endian, formats: &Formats) {
        self.endian = Some(endian);
        self.sections = sections.map(<[u8]>::to_vec);
        self.formats = formats.clone();
    }
}
