//! The full-screen menu: its state, what keys do to it, and how it is drawn. Pure;
//! `full_screen` has the terminal.

use super::entries::{EXPERIMENTS, Parameter};
use super::form::{Form, Recent, command_line};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, List, ListItem, ListState, Paragraph, Wrap};

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    /// The list of experiments.
    List,
    /// A field: 0 is the target, the parameters follow.
    Field(usize),
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing outside of the menu.
    None,
    /// This command line, without `latlab`.
    Run(Vec<String>),
    /// The end.
    Leave,
}

/// The menu.
#[derive(Debug)]
pub struct Menu {
    forms: Vec<Form>,
    selected: usize,
    focus: Focus,
    /// Where the command runs; empty: here.
    target: String,
    /// What this machine lacks, if anything.
    missing: Option<String>,
    color: bool,
}

impl Menu {
    /// All experiments with the values that they begin with.
    pub fn new(recent: &Recent, missing: Option<String>, color: bool) -> Self {
        let forms = EXPERIMENTS.iter().map(|e| Form::new(e, recent)).collect();
        Self { forms, selected: 0, focus: Focus::List, target: String::new(), missing, color }
    }

    /// Takes results over that a command has left: fields that begin with one and were not edited.
    pub fn refresh(&mut self, before: &Recent, now: &Recent) {
        for form in &mut self.forms {
            let initial = Form::new(form.experiment, before).values;
            let fresh = Form::new(form.experiment, now).values;
            for ((value, old), new) in form.values.iter_mut().zip(initial).zip(fresh) {
                if *value == old {
                    *value = new;
                }
            }
        }
    }

    /// The command line of the selected experiment, without `latlab`.
    pub fn words(&self) -> Vec<String> {
        let target = self.target.trim();
        let on = ["--on", target].map(str::to_owned).into_iter().filter(|_| !target.is_empty());
        on.chain(self.form().words()).collect()
    }

    fn form(&self) -> &Form {
        &self.forms[self.selected]
    }

    fn fields(&self) -> usize {
        1 + self.form().experiment.parameters.len()
    }

    fn parameter(&self, field: usize) -> Option<&'static Parameter> {
        self.form().experiment.parameters.get(field.checked_sub(1)?)
    }

    fn value(&mut self, field: usize) -> &mut String {
        match field.checked_sub(1) {
            Some(parameter) => &mut self.forms[self.selected].values[parameter],
            None => &mut self.target,
        }
    }

    /// What `key` does.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Leave,
                KeyCode::Char('u') => {
                    if let Focus::Field(field) = self.focus {
                        self.value(field).clear();
                    }
                    Action::None
                }
                _ => Action::None,
            };
        }
        if key.code == KeyCode::Enter {
            return match self.form().lacks() {
                Some(parameter) => {
                    self.focus = Focus::Field(1 + parameter);
                    Action::None
                }
                None => Action::Run(self.words()),
            };
        }
        match self.focus {
            Focus::List => self.list_key(key.code),
            Focus::Field(field) => self.field_key(field, key.code),
        }
    }

    fn list_key(&mut self, code: KeyCode) -> Action {
        let last = self.forms.len() - 1;
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = last.min(self.selected + 1),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::PageDown => self.selected = last.min(self.selected + 10),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Right | KeyCode::Tab | KeyCode::Char('l' | ' ') => {
                self.focus = Focus::Field(usize::from(self.fields() > 1));
            }
            KeyCode::Char('t') => self.focus = Focus::Field(0),
            KeyCode::Char('q') | KeyCode::Esc => return Action::Leave,
            _ => {}
        }
        Action::None
    }

    fn field_key(&mut self, field: usize, code: KeyCode) -> Action {
        let choices = self.parameter(field).map_or(&[][..], |p| p.choices);
        match code {
            KeyCode::Esc => self.focus = Focus::List,
            KeyCode::Up | KeyCode::BackTab => {
                self.focus = field.checked_sub(1).map_or(Focus::List, Focus::Field);
            }
            KeyCode::Down | KeyCode::Tab => {
                self.focus = Focus::Field((field + 1).min(self.fields() - 1));
            }
            KeyCode::Left if choices.is_empty() => self.focus = Focus::List,
            KeyCode::Left => self.choose(field, choices, choices.len() - 1),
            KeyCode::Right | KeyCode::Char(' ') if !choices.is_empty() => {
                self.choose(field, choices, 1);
            }
            KeyCode::Backspace if choices.is_empty() => {
                self.value(field).pop();
            }
            // A field is one line; what a terminal cannot show is not typed.
            KeyCode::Char(c) if choices.is_empty() && !c.is_control() => self.value(field).push(c),
            _ => {}
        }
        Action::None
    }

    /// The choice `by` places behind the present one.
    fn choose(&mut self, field: usize, choices: &[&str], by: usize) {
        let value = self.value(field);
        let now = choices.iter().position(|c| c == value).unwrap_or(0);
        *value = choices[(now + by) % choices.len()].to_owned();
    }

    /// Draws it. `problem` is what is wrong with the command line, if anything.
    pub fn draw(&self, frame: &mut Frame, problem: Option<&str>) {
        let below = 4 + u16::from(self.missing.is_some());
        let [top, bottom] =
            Layout::vertical([Constraint::Min(3), Constraint::Length(below)]).areas(frame.area());
        let [left, right] =
            Layout::horizontal([Constraint::Length(30), Constraint::Min(20)]).areas(top);
        self.draw_list(frame, left);
        self.draw_form(frame, right);
        self.draw_command(frame, bottom, problem);
    }

    fn accent(&self) -> Style {
        if self.color { Style::new().fg(Color::Cyan) } else { Style::new() }
    }

    fn block(&self, title: &'static str, focused: bool) -> Block<'static> {
        let style = if focused { self.accent() } else { Style::new().add_modifier(Modifier::DIM) };
        Block::bordered().title(title).border_style(style)
    }

    fn draw_list(&self, frame: &mut Frame, area: Rect) {
        let mut items = Vec::new();
        let mut group = "";
        let mut row = 0;
        for (n, form) in self.forms.iter().enumerate() {
            if form.experiment.group != group {
                group = form.experiment.group;
                items.push(ListItem::new(group).style(Style::new().add_modifier(Modifier::BOLD)));
            }
            if n == self.selected {
                row = items.len();
            }
            items.push(ListItem::new(format!("  {}", form.experiment.title)));
        }
        let list = List::new(items)
            .block(self.block(" Experiments ", self.focus == Focus::List))
            .highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(
            list,
            area,
            &mut ListState::default().with_selected(Some(row)),
        );
    }

    fn draw_form(&self, frame: &mut Frame, area: Rect) {
        let form = self.form();
        let focused = self.focus != Focus::List;
        let block = self.block(" Parameters ", focused);
        let [question, fields, help] =
            Layout::vertical([Constraint::Length(3), Constraint::Min(1), Constraint::Length(2)])
                .areas(block.inner(area));
        frame.render_widget(block, area);
        let text = Paragraph::new(form.experiment.question)
            .style(Style::new().add_modifier(Modifier::BOLD))
            .wrap(Wrap { trim: true });
        frame.render_widget(text, question);
        let rows = usize::from(fields.height).max(1);
        let chosen = if let Focus::Field(field) = self.focus { field } else { 0 };
        let first = (chosen + 1).saturating_sub(rows);
        let lines: Vec<Line> = (first..self.fields()).map(|field| self.field_line(field)).collect();
        frame.render_widget(Paragraph::new(lines), fields);
        if let Focus::Field(field) = self.focus {
            let words = self.parameter(field).map_or(
                "ssh://user@board, or a machine of `latlab vm list` such as vm:armv7-rt",
                |p| p.help,
            );
            frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), help);
        }
    }

    fn field_line(&self, field: usize) -> Line<'static> {
        let (label, value, choices) = match self.parameter(field) {
            Some(p) => (p.label, self.form().values[field - 1].clone(), p.choices),
            None if self.target.is_empty() => ("Target", "this machine".to_owned(), &[][..]),
            None => ("Target", self.target.clone(), &[][..]),
        };
        let here = self.focus == Focus::Field(field);
        let typed = here && choices.is_empty();
        let shown = match (typed, field) {
            // The cursor is the place behind the last character.
            (true, 0) => format!("{}▏", self.target),
            (true, _) => format!("{value}▏"),
            (false, _) if choices.is_empty() => value,
            (false, _) => format!("‹ {value} ›"),
        };
        let style =
            if here { Style::new().add_modifier(Modifier::REVERSED) } else { self.accent() };
        Line::from(vec![
            Span::raw(format!("{label:<17} ")),
            Span::styled(format!(" {shown} "), style),
        ])
    }

    fn draw_command(&self, frame: &mut Frame, area: Rect, problem: Option<&str>) {
        let line = format!("$ latlab {}", command_line(&self.words()));
        let keys = match self.focus {
            Focus::List => "↑ ↓ experiment   → parameters   t target   Enter run   q quit",
            Focus::Field(_) => "↑ ↓ field   ← → choice   Ctrl-U clear   Enter run   Esc back",
        };
        let warning = if self.color { Style::new().fg(Color::Yellow) } else { Style::new() };
        let dim = Style::new().add_modifier(Modifier::DIM);
        let lacking = self.form().lacks().and_then(|n| self.form().experiment.parameters.get(n));
        let lacking = lacking.map(|p| format!("Needs {}: {}", p.label, p.help));
        let problem = lacking.or(problem.map(str::to_owned)).unwrap_or_default();
        let mut lines = vec![
            Line::styled(line, Style::new().add_modifier(Modifier::BOLD)),
            Line::styled(problem, warning),
        ];
        lines.extend(self.missing.iter().map(|words| Line::styled(words.clone(), warning)));
        lines.push(Line::default());
        lines.push(Line::styled(keys, dim));
        frame.render_widget(Paragraph::new(lines), area);
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
