//! Which terminal we are: its sizes and the names it has in the negotiation.

use crate::limits::SCREEN_CELLS;

/// Rows and columns of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// At least 1.
    pub rows: usize,
    /// At least 1.
    pub columns: usize,
}

impl Size {
    /// The size of a model 2, which every model can take.
    pub const MODEL_2: Size = Size { rows: 24, columns: 80 };

    /// A size that a screen can have. `None`: it has no position, or more than can be addressed.
    pub fn new(rows: usize, columns: usize) -> Option<Self> {
        let cells = rows.checked_mul(columns)?;
        (1..=SCREEN_CELLS).contains(&cells).then_some(Size { rows, columns })
    }

    /// How many positions there are.
    pub fn cells(self) -> usize {
        self.rows * self.columns
    }
}

/// A display terminal of the 3270 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// 24 × 80 positions.
    Two,
    /// 32 × 80 positions.
    Three,
    /// 43 × 80 positions.
    Four,
    /// 27 × 132 positions.
    Five,
    /// A size of its own, which the host asks for by a query (`IBM-DYNAMIC`).
    Dynamic(Size),
}

impl Model {
    /// By its digit.
    pub fn numbered(digit: char) -> Option<Self> {
        Some(match digit {
            '2' => Model::Two,
            '3' => Model::Three,
            '4' => Model::Four,
            '5' => Model::Five,
            _ => return None,
        })
    }

    /// The size that Erase/Write Alternate takes.
    pub fn alternate(self) -> Size {
        match self {
            Model::Two => Size::MODEL_2,
            Model::Three => Size { rows: 32, columns: 80 },
            Model::Four => Size { rows: 43, columns: 80 },
            Model::Five => Size { rows: 27, columns: 132 },
            Model::Dynamic(size) => size,
        }
    }

    fn digit(self) -> char {
        match self {
            Model::Two | Model::Dynamic(_) => '2',
            Model::Three => '3',
            Model::Four => '4',
            Model::Five => '5',
        }
    }
}

/// Whether the terminal shows colours: it decides between the names 3278 and 3279.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Colour {
    /// A 3278, green on black.
    Monochrome,
    /// A 3279, with seven colours.
    #[default]
    Colour,
}

/// Whether the host may use extended attributes and queries: the suffix `-E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataStream {
    /// The data stream of the first terminals.
    Base,
    /// With extended attributes and structured fields.
    #[default]
    Extended,
}

/// The terminal as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// What decides on the sizes.
    pub model: Model,
    /// What decides on `3278` or `3279`.
    pub colour: Colour,
    /// What decides on `-E`.
    pub data_stream: DataStream,
}

impl Default for Device {
    fn default() -> Self {
        Device { model: Model::Two, colour: Colour::default(), data_stream: DataStream::default() }
    }
}

impl Device {
    /// A name such as `IBM-3279-4-E` or `3278-2`. `None`: it is no such name.
    pub fn named(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("IBM-").unwrap_or(&upper);
        let (bare, data_stream) = match bare.strip_suffix("-E") {
            Some(bare) => (bare, DataStream::Extended),
            None => (bare, DataStream::Base),
        };
        let (series, digit) = bare.split_once('-')?;
        let colour = match series {
            "3278" => Colour::Monochrome,
            "3279" => Colour::Colour,
            _ => return None,
        };
        let mut digits = digit.chars();
        let model = Model::numbered(digits.next()?)?;
        digits.next().is_none().then_some(Device { model, colour, data_stream })
    }

    /// The terminal type of plain TN3270 (RFC 1576).
    pub fn terminal_type(&self) -> String {
        let series = match self.colour {
            Colour::Monochrome => "3278",
            Colour::Colour => "3279",
        };
        self.name(series)
    }

    /// The device type of TN3270E, which knows no 3279 (RFC 2355 §7.1.1).
    pub fn device_type(&self) -> String {
        self.name("3278")
    }

    fn name(&self, series: &str) -> String {
        if let Model::Dynamic(_) = self.model {
            return "IBM-DYNAMIC".to_owned();
        }
        let suffix = match self.data_stream {
            DataStream::Base => "",
            DataStream::Extended => "-E",
        };
        format!("IBM-{series}-{}{suffix}", self.model.digit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let device = Device::named("ibm-3279-4-e").unwrap();
        assert_eq!(device.terminal_type(), "IBM-3279-4-E");
        assert_eq!(device.device_type(), "IBM-3278-4-E");
        assert_eq!(device.model.alternate(), Size { rows: 43, columns: 80 });
        assert_eq!(Device::named("3278-2").unwrap().terminal_type(), "IBM-3278-2");
        for bad in ["3278", "3278-6", "3278-22", "3287-1", "IBM-DYNAMIC-2"] {
            assert_eq!(Device::named(bad), None, "{bad}");
        }
        let size = Size::new(62, 160).unwrap();
        let dynamic = Device { model: Model::Dynamic(size), ..Device::default() };
        assert_eq!(dynamic.terminal_type(), "IBM-DYNAMIC");
        assert_eq!(Size::new(0, 80), None);
        assert_eq!(Size::new(1000, 1000), None);
    }
}
