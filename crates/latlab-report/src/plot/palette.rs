//! Colours that colour-blind readers can tell apart, for light and dark grounds.
//!
//! Series: Okabe and Ito, "Color Universal Design" (2008), with yellow left
//! out (it vanishes on white) and lighter relatives for dark grounds. Series are told apart
//! by dashes too, so a printed page without colour can be read. Heat: cividis
//! (J. Nuñez, C. Anderton, R. Renslow, PLoS ONE 13(7), 2018), whose lightness rises evenly.

/// What a drawn element is; the ground decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A series, by its index.
    Series(usize),
    /// Words.
    Ink,
    /// Axis labels and ticks.
    Dim,
    /// Grid lines.
    Grid,
    /// Marks and bands.
    Mark,
    /// The ground itself.
    Ground,
}

/// Series colours before they repeat.
pub const SERIES: usize = 7;

const LIGHT: [&str; SERIES] =
    ["#0072B2", "#D55E00", "#009E73", "#A8508A", "#B27A00", "#3F9FD8", "#555555"];
const DARK: [&str; SERIES] =
    ["#56B4E9", "#F08A4B", "#2FC79E", "#DE9CC4", "#E6B333", "#9CC7FF", "#BDBDBD"];

/// SVG dash patterns, one a series: the first is solid.
pub const DASHES: [&str; SERIES] = ["", "7 3", "2 3", "10 3 2 3", "14 4", "4 2", "1 4"];

/// The ground a drawing is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// White paper or a light page.
    Light,
    /// A dark page.
    Dark,
}

impl Role {
    /// The colour on a ground, `#RRGGBB`.
    pub fn color(self, ground: Ground) -> &'static str {
        match (self, ground) {
            (Self::Series(i), Ground::Light) => LIGHT[i % SERIES],
            (Self::Series(i), Ground::Dark) => DARK[i % SERIES],
            (Self::Ink, Ground::Light) => "#1C2024",
            (Self::Ink, Ground::Dark) => "#E6E9EC",
            (Self::Dim, Ground::Light) => "#5B6570",
            (Self::Dim, Ground::Dark) => "#A3ADB8",
            (Self::Grid, Ground::Light) => "#E3E7EB",
            (Self::Grid, Ground::Dark) => "#2C333B",
            (Self::Mark, Ground::Light) => "#8A6D00",
            (Self::Mark, Ground::Dark) => "#D9B84A",
            (Self::Ground, Ground::Light) => "#FFFFFF",
            (Self::Ground, Ground::Dark) => "#15191E",
        }
    }

    /// A name for style sheets: `s0`…, `ink`, `dim`…
    pub fn class(self) -> String {
        match self {
            Self::Series(i) => format!("s{}", i % SERIES),
            Self::Ink => "ink".into(),
            Self::Dim => "dim".into(),
            Self::Grid => "grid".into(),
            Self::Mark => "mark".into(),
            Self::Ground => "ground".into(),
        }
    }

    /// Every role there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let rest = [Self::Ink, Self::Dim, Self::Grid, Self::Mark, Self::Ground];
        (0..SERIES).map(Self::Series).chain(rest)
    }
}

/// Cividis at nine places; between them it is interpolated.
const CIVIDIS: [(u8, u8, u8); 9] = [
    (0, 32, 77),
    (0, 50, 106),
    (47, 69, 108),
    (79, 89, 109),
    (107, 110, 114),
    (136, 132, 121),
    (168, 156, 116),
    (204, 183, 101),
    (255, 234, 70),
];

/// The heat colour at a place between 0 (dark) and 1 (bright).
pub fn heat(place: f64) -> (u8, u8, u8) {
    let last = CIVIDIS.len() - 1;
    let at = place.clamp(0.0, 1.0) * last as f64;
    let i = (at as usize).min(last - 1);
    let t = at - i as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + t * (f64::from(b) - f64::from(a))).round() as u8;
    let (a, b) = (CIVIDIS[i], CIVIDIS[i + 1]);
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Whether words on a heat colour have to be white.
pub fn wants_white(place: f64) -> bool {
    place < 0.55
}
