//! The macro that turns a table of events and their fields into types and their decoding.

/// How one kind of field is read.
macro_rules! read {
    (text, $slot:expr, $p:expr) => {
        $slot.text($p)
    };
    (i32, $slot:expr, $p:expr) => {
        $slot.i64($p) as i32
    };
    (u32, $slot:expr, $p:expr) => {
        $slot.u64($p) as u32
    };
    (i64, $slot:expr, $p:expr) => {
        $slot.i64($p)
    };
    (u64, $slot:expr, $p:expr) => {
        $slot.u64($p)
    };
    (mask, $slot:expr, $p:expr) => {
        $slot.mask($p)
    };
}

/// The type of one kind of field.
macro_rules! kind {
    (text) => { &'e [u8] };
    (i32) => { i32 };
    (u32) => { u32 };
    (i64) => { i64 };
    (u64) => { u64 };
    (mask) => { u64 };
}

macro_rules! typed {
    ($(
        $(#[$doc:meta])*
        struct $name:ident $(<$lt:lifetime>)? {
            $( $(#[$fdoc:meta])* $field:ident : $ty:ident $(| $alias:literal)* ),* $(,)?
        }
        $( $variant:ident $(<$vlt:lifetime>)? = $event:literal ),+ ;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name $(<$lt>)? {
                $( $(#[$fdoc])* pub $field: kind!($ty), )*
            }

            impl<'e> Get<'e> for $name $(<$lt>)? {
                const FIELDS: FieldNames =
                    &[ $( &[stringify!($field) $(, $alias)*] ),* ];
                #[inline]
                #[expect(unused_assignments, reason = "nothing reads the number after the last field")]
                fn get(slots: &[Slot], payload: &'e [u8]) -> Self {
                    let mut n = 0;
                    $( let $field = { let slot = &slots[n]; n += 1; read!($ty, slot, payload) }; )*
                    Self { $($field),* }
                }
            }
        )*

        /// One event, decoded.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Typed<'e> {
            $( $(
                #[doc = concat!("`", $event, "`")]
                $variant($name $(<$vlt>)?),
            )+ )*
            /// Entry to an interrupt vector of x86 (`irq_vectors:*_entry`).
            VectorEntry(Vector<'e>),
            /// Exit from an interrupt vector of x86 (`irq_vectors:*_exit`).
            VectorExit(Vector<'e>),
            /// Entry to a system call (`raw_syscalls:sys_enter` or `syscalls:sys_enter_*`).
            SysEnter(SysEnter<'e>),
            /// Exit from a system call.
            SysExit(SysExit<'e>),
            /// `kernel_stack`: return addresses, innermost first.
            KernelStack(Stack<'e>),
            /// Any other event.
            Other,
        }

        /// An event with fixed fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Fixed { $( $( $variant, )+ )* }

        impl Fixed {
            /// The event of a name, and its fields' names.
            pub(super) fn find(name: &str) -> Option<(Self, FieldNames)> {
                match name {
                    $( $( $event => Some((Self::$variant, <$name as Get<'_>>::FIELDS)), )+ )*
                    _ => None,
                }
            }

            #[inline(always)]
            pub(super) fn decode<'e>(self, slots: &[Slot], payload: &'e [u8]) -> Typed<'e> {
                match self {
                    $( $( Self::$variant => Typed::$variant(<$name as Get<'_>>::get(slots, payload)), )+ )*
                }
            }
        }
    };
}
