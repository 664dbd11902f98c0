//! What the host writes: orders and characters change the screen (GA23-0059, "3270 data stream
//! commands and orders").
//!
//! A stream that breaks off or names a position beyond the screen ends there; what came before it
//! has taken effect, and a host that asked for it is answered that the record failed.

use crate::address::Addressing;
use crate::codes::{attribute, format, order, wcc};
use crate::enhanced::Trouble;
use crate::screen::{FieldAttribute, GRAPHIC_ESCAPE, ReplyMode, Screen, Style};

/// What a write asks of the terminal around the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) alarm: bool,
    pub(crate) restore: bool,
}

/// Whether the screen was erased just before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Erased,
    Kept,
}

/// Carries out the write control character and the orders behind it.
pub(crate) fn write(
    screen: &mut Screen,
    body: &[u8],
    before: Before,
    wishes: &mut Wishes,
) -> Result<(), Trouble> {
    let Some((&control, orders)) = body.split_first() else {
        return Err(Trouble::OperationCheck);
    };
    if control & wcc::RESET != 0 && before == Before::Erased {
        screen.reply_mode = ReplyMode::Field;
    }
    if control & wcc::RESET_MDT != 0 {
        screen.unmark_all();
    }
    wishes.alarm |= control & wcc::ALARM != 0;
    wishes.restore |= control & wcc::RESTORE != 0;
    screen.address = screen.cursor();
    let addressing = Addressing::of_screen(screen.cells());
    let mut writer = Writer {
        screen,
        rest: orders,
        addressing,
        style: Style::default(),
        previous: Previous::Order,
    };
    writer.run()
}

/// What stood before an order PT: it decides whether the rest of the field is nulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Previous {
    /// A command or an order.
    Order,
    Character,
    /// A PT that came to the begin of the screen while it nulled.
    NullingTab,
}

struct Writer<'a> {
    screen: &'a mut Screen,
    rest: &'a [u8],
    addressing: Addressing,
    /// Of the characters to come, as SA orders have set it.
    style: Style,
    previous: Previous,
}

impl Writer<'_> {
    fn run(&mut self) -> Result<(), Trouble> {
        let mut outcome = Ok(());
        while let Some((&byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            if byte >= 0x40 {
                self.put(byte, self.style);
                continue;
            }
            if is_order(byte) {
                self.previous = self.order(byte)?;
            } else if is_format_control(byte) {
                self.put(byte, self.style);
            } else {
                // It is skipped, and the host hears of it.
                outcome = Err(Trouble::CommandReject);
            }
        }
        outcome
    }

    /// Carries out an order; answers what it is to a PT behind it.
    fn order(&mut self, byte: u8) -> Result<Previous, Trouble> {
        match byte {
            order::START_FIELD => {
                let attribute = FieldAttribute::of(self.byte()?);
                self.start_field(attribute, Style::default());
            }
            order::START_FIELD_EXTENDED => self.start_field_extended()?,
            order::SET_BUFFER_ADDRESS => self.screen.address = self.position()?,
            order::SET_ATTRIBUTE => {
                let [kind, value] = self.pair()?;
                set_style(&mut self.style, kind, value);
            }
            order::MODIFY_FIELD => self.modify_field()?,
            order::INSERT_CURSOR => self.screen.move_cursor(self.screen.address),
            order::PROGRAM_TAB => return Ok(self.program_tab()),
            order::REPEAT_TO_ADDRESS => self.repeat()?,
            order::ERASE_UNPROTECTED => self.erase_unprotected()?,
            order::GRAPHIC_ESCAPE => {
                let code = self.byte()?;
                self.put(code, Style { character_set: GRAPHIC_ESCAPE, ..self.style });
                return Ok(Previous::Character);
            }
            _ => return Err(Trouble::OperationCheck),
        }
        Ok(Previous::Order)
    }

    fn byte(&mut self) -> Result<u8, Trouble> {
        let (&byte, rest) = self.rest.split_first().ok_or(Trouble::OperationCheck)?;
        self.rest = rest;
        Ok(byte)
    }

    fn pair(&mut self) -> Result<[u8; 2], Trouble> {
        let (&pair, rest) = self.rest.split_first_chunk().ok_or(Trouble::OperationCheck)?;
        self.rest = rest;
        Ok(pair)
    }

    /// An address of an order, which must be on the screen.
    fn position(&mut self) -> Result<usize, Trouble> {
        let position = self.addressing.decode(self.pair()?);
        if position < self.screen.cells() { Ok(position) } else { Err(Trouble::OperationCheck) }
    }

    fn put(&mut self, code: u8, style: Style) {
        self.screen.set_code(self.screen.address, code, style);
        self.advance();
        self.previous = Previous::Character;
    }

    fn advance(&mut self) {
        self.screen.address = self.screen.after(self.screen.address);
    }

    fn start_field(&mut self, attribute: FieldAttribute, style: Style) {
        self.screen.set_field(self.screen.address, attribute, style);
        self.advance();
    }

    fn start_field_extended(&mut self) -> Result<(), Trouble> {
        let count = self.byte()?;
        let mut attribute = FieldAttribute::of(0);
        let mut style = Style::default();
        for _ in 0..count {
            match self.pair()? {
                [attribute::FIELD, value] => attribute = FieldAttribute::of(value),
                [kind, value] => set_style(&mut style, kind, value),
            }
        }
        self.start_field(attribute, style);
        Ok(())
    }

    /// Changes the attribute at the address; where there is none, nothing happens.
    fn modify_field(&mut self) -> Result<(), Trouble> {
        let count = self.byte()?;
        let at = self.screen.address;
        let present = self.screen.attribute(at);
        let mut attribute = present.unwrap_or(FieldAttribute::of(0));
        let mut style = self.screen.style(at);
        for _ in 0..count {
            match self.pair()? {
                [attribute::FIELD, value] => attribute = FieldAttribute::of(value),
                [kind, value] => set_style(&mut style, kind, value),
            }
        }
        if present.is_some() {
            self.start_field(attribute, style);
        }
        Ok(())
    }

    fn repeat(&mut self) -> Result<(), Trouble> {
        let end = self.position()?;
        let mut style = self.style;
        let mut code = self.byte()?;
        if code == order::GRAPHIC_ESCAPE {
            code = self.byte()?;
            style.character_set = GRAPHIC_ESCAPE;
        }
        loop {
            self.put(code, style);
            if self.screen.address == end {
                return Ok(());
            }
        }
    }

    fn erase_unprotected(&mut self) -> Result<(), Trouble> {
        let end = self.position()?;
        let mut ruling = self.screen.ruling(self.screen.address);
        loop {
            let at = self.screen.address;
            match self.screen.attribute(at) {
                Some(attribute) => ruling = attribute,
                None if !ruling.is_protected() => self.null(at),
                None => {}
            }
            self.advance();
            if self.screen.address == end {
                return Ok(());
            }
        }
    }

    fn null(&mut self, at: usize) {
        self.screen.set_code(at, format::NULL, Style::default());
    }

    fn program_tab(&mut self) -> Previous {
        let at = self.screen.address;
        if self.screen.attribute(at).is_some_and(|field| !field.is_protected()) {
            self.advance();
            return Previous::Order;
        }
        let found = self.screen.next_unprotected(at).filter(|next| *next > at).unwrap_or(0);
        let mut after = Previous::Order;
        if self.previous != Previous::Order {
            while self.screen.address != found
                && self.screen.attribute(self.screen.address).is_none()
            {
                self.null(self.screen.address);
                self.advance();
            }
            if found == 0 {
                after = Previous::NullingTab;
            }
        }
        self.screen.address = found;
        after
    }
}

fn is_order(code: u8) -> bool {
    matches!(
        code,
        order::PROGRAM_TAB
            | order::GRAPHIC_ESCAPE
            | order::SET_BUFFER_ADDRESS
            | order::ERASE_UNPROTECTED
            | order::INSERT_CURSOR
            | order::START_FIELD
            | order::SET_ATTRIBUTE
            | order::START_FIELD_EXTENDED
            | order::MODIFY_FIELD
            | order::REPEAT_TO_ADDRESS
    )
}

/// Codes below 40 that take a position of the screen.
fn is_format_control(code: u8) -> bool {
    matches!(
        code,
        format::NULL
            | format::FORM_FEED
            | format::CARRIAGE_RETURN
            | format::SHIFT_OUT
            | format::SHIFT_IN
            | format::NEW_LINE
            | format::END_OF_MEDIUM
            | format::DUP
            | format::FIELD_MARK
            | format::SUBSTITUTE
    )
}

/// Sets one extended attribute; a type that changes nothing that is shown is skipped.
fn set_style(style: &mut Style, kind: u8, value: u8) {
    match kind {
        attribute::ALL => *style = Style::default(),
        attribute::HIGHLIGHT => style.highlight = value,
        attribute::FOREGROUND => style.foreground = value,
        attribute::BACKGROUND => style.background = value,
        attribute::CHARACTER_SET => style.character_set = value,
        _ => {}
    }
}

/// Erase All Unprotected: nulls all fields that can be typed into, forgets that they were, and
/// puts the cursor into the first of them.
pub(crate) fn erase_all_unprotected(screen: &mut Screen) {
    if !screen.is_formatted() {
        screen.clear();
        return;
    }
    let open = |screen: &Screen, at: &usize| {
        screen.attribute(*at).is_some_and(|field| !field.is_protected())
    };
    let fields: Vec<usize> = screen.fields().filter(|at| open(screen, at)).collect();
    for field in &fields {
        screen.mark(*field, crate::screen::Mark::Unmodified);
        let positions: Vec<usize> = screen.positions(*field).collect();
        for at in positions {
            screen.set_code(at, format::NULL, Style::default());
        }
    }
    let home = fields.first().map_or(0, |field| screen.after(*field));
    screen.move_cursor(home);
}
