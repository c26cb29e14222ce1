//! What is on the screen, and how keys and answers change it. No terminal and no router is touched here.

use std::collections::BTreeMap;

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::data::Data;
use super::listing::{Cursor, Listing, Target};
use super::lists::{self, Choice, Kind};
use super::pages::{ElementPage, Item, Page, Scroll, TextPage};
use super::source::{Answer, Failure, Request};
use super::text::{Ink, printable};

/// What the caller has to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// To end.
    Quit,
    /// To stop until the shell lets the program go on.
    Suspend,
    /// To draw all anew.
    Redraw,
    /// To ask the router.
    Ask(Request),
}

/// What is shown below the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    List(Kind),
    /// What the program has written on standard error.
    Messages,
}

/// What is typed at the foot of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Words to search for, which are in the [`Choice`] of the table.
    Search,
    /// A value for a handler.
    Write { handler: String, text: String },
}

/// A table and what was chosen of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) choice: Choice,
    pub(crate) cursor: Cursor,
}

/// What is on the screen.
pub(crate) struct State {
    /// None until the router has answered.
    pub(crate) data: Option<Data>,
    pub(crate) tab: Tab,
    pub(crate) lists: BTreeMap<Kind, Shown>,
    /// What was opened; the last one is shown.
    pub(crate) pages: Vec<Page>,
    pub(crate) input: Option<Input>,
    pub(crate) is_paused: bool,
    /// Why there are no new figures.
    pub(crate) lost: Option<String>,
    /// For how many seconds the router has not answered.
    pub(crate) silent: Option<u64>,
    /// What came of the last key.
    pub(crate) said: Option<(String, Ink)>,
    /// What the program has written on standard error; none if that is no part of the view.
    pub(crate) messages: Option<Vec<String>>,
    pub(crate) messages_scroll: Scroll,
    /// The manual of a class.
    manual: fn(&str) -> Option<String>,
    /// What `q` does, in words.
    pub(crate) end: &'static str,
}

impl State {
    /// An empty screen.
    pub(crate) fn new(manual: fn(&str) -> Option<String>, end: &'static str) -> Self {
        let usual = |kind: Kind| {
            let choice = Choice { sorted: lists::usual_order(kind), ..Choice::default() };
            (kind, Shown { choice, cursor: Cursor::default() })
        };
        Self {
            data: None,
            tab: Tab::List(Kind::Elements),
            lists: Kind::ALL.into_iter().map(usual).collect(),
            pages: Vec::new(),
            input: None,
            is_paused: false,
            lost: None,
            silent: None,
            said: None,
            messages: None,
            messages_scroll: Scroll::default(),
            manual,
            end,
        }
    }

    /// The tabs, in the order of their keys.
    pub(crate) fn tabs(&self) -> impl Iterator<Item = Tab> + use<> {
        let messages = self.messages.is_some().then_some(Tab::Messages);
        Kind::ALL.into_iter().map(Tab::List).chain(messages)
    }

    /// The table that is shown, or would be if there were no page above it.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self.tab {
            Tab::List(kind) => Some(kind),
            Tab::Messages => None,
        }
    }

    /// The rows of a table.
    pub(crate) fn listing(&self, kind: Kind) -> Listing<'_> {
        match (&self.data, self.lists.get(&kind)) {
            (Some(data), Some(shown)) => lists::listing(kind, data, &shown.choice),
            _ => Listing::default(),
        }
    }

    /// Takes an answer of the router.
    pub(crate) fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Snapshot(Ok(snapshot)) => {
                let again = self.lost.take().is_some();
                match &mut self.data {
                    Some(data) => {
                        if again {
                            let what = match data.now.pid == snapshot.pid {
                                true => "connected again".to_owned(),
                                false => {
                                    format!("another instance answers: process {}", snapshot.pid)
                                }
                            };
                            self.said = Some((what, Ink::Good));
                        }
                        data.push(*snapshot);
                    }
                    none => *none = Some(Data::new(*snapshot)),
                }
                self.settle();
            }
            Answer::Snapshot(Err(Failure::Lost(why))) => {
                let what = "the instance has ended, or cannot be reached; trying again";
                self.lost = Some(format!("{what} ({why})"));
            }
            Answer::Snapshot(Err(Failure::Refused(why))) => self.lost = Some(why),
            Answer::Handlers(element, answer) => {
                for page in self.pages_of(&element) {
                    match &answer {
                        Ok((handlers, config)) => {
                            page.handlers = Some(Ok(handlers.clone()));
                            page.config = config.clone();
                        }
                        Err(Failure::Lost(why) | Failure::Refused(why)) => {
                            page.handlers = Some(Err(why.clone()));
                        }
                    }
                }
            }
            Answer::Value(handler, value) => self.take_value(&handler, &value),
            Answer::Written(handler, Ok(said)) => {
                let said = printable(said.trim());
                let more = if said.is_empty() { String::new() } else { format!(": {said}") };
                self.said = Some((format!("{handler} is written{more}"), Ink::Good));
            }
            Answer::Written(handler, Err(Failure::Lost(why) | Failure::Refused(why))) => {
                let why = printable(&why.replace('\n', " "));
                self.said = Some((format!("{handler} is not written: {why}"), Ink::Bad));
            }
        }
    }

    fn pages_of<'s>(&'s mut self, element: &'s str) -> impl Iterator<Item = &'s mut ElementPage> {
        self.pages.iter_mut().filter_map(move |page| match page {
            Page::Element(page) if page.name == element => Some(page),
            _ => None,
        })
    }

    /// A short value stands beside the handler's name, a longer one is a page of its own.
    fn take_value(&mut self, handler: &str, value: &Result<String, Failure>) {
        if let Some(Page::Text(page)) = self.pages.last_mut()
            && page.handler.as_deref() == Some(handler)
        {
            let lines = TextPage::of_handler(handler, value).lines;
            page.lines = lines;
            return;
        }
        let (element, name) = handler.rsplit_once('.').unwrap_or(("", handler));
        let short = match value {
            Ok(value) if value.trim_end().contains('\n') => Ok("...".to_owned()),
            Ok(value) => Ok(printable(value.trim_end())),
            Err(Failure::Lost(why) | Failure::Refused(why)) => {
                Err(printable(&why.replace('\n', " ")))
            }
        };
        let is_long = value.as_ref().is_ok_and(|value| value.trim_end().contains('\n'));
        for page in self.pages_of(element) {
            page.values.insert(name.to_owned(), short.clone());
        }
        if is_long && matches!(self.pages.last(), Some(Page::Element(page)) if page.name == element)
        {
            self.pages.push(Page::Text(TextPage::of_handler(handler, value)));
        }
    }

    /// Finds the chosen rows again after the figures have changed.
    fn settle(&mut self) {
        let Some(data) = &self.data else { return };
        for (kind, shown) in &mut self.lists {
            let rows = lists::listing(*kind, data, &shown.choice).rows;
            shown.cursor.find(&rows);
        }
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Vec<Act> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => vec![Act::Quit],
                KeyCode::Char('z') => vec![Act::Suspend],
                KeyCode::Char('l') => vec![Act::Redraw],
                _ => Vec::new(),
            };
        }
        self.said = None;
        if self.input.is_some() {
            return self.type_key(key.code);
        }
        match self.pages.last() {
            Some(_) => self.page_key(key.code),
            None => self.table_key(key.code),
        }
    }

    fn type_key(&mut self, code: KeyCode) -> Vec<Act> {
        let mut input = self.input.take();
        match &mut input {
            Some(Input::Search) => {
                let Some(shown) = self.kind().and_then(|kind| self.lists.get_mut(&kind)) else {
                    return Vec::new();
                };
                let words = &mut shown.choice.search;
                match code {
                    KeyCode::Enter => input = None,
                    KeyCode::Esc => {
                        words.clear();
                        input = None;
                    }
                    code => edit(words, code),
                }
                *words = words.to_lowercase();
                self.settle();
            }
            Some(Input::Write { handler, text }) => match code {
                KeyCode::Enter => {
                    return vec![Act::Ask(Request::Write(handler.clone(), text.clone()))];
                }
                KeyCode::Esc => input = None,
                code => edit(text, code),
            },
            None => {}
        }
        self.input = input;
        Vec::new()
    }

    /// A key that means the same everywhere; false if it means nothing.
    fn common_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?') | KeyCode::F(1) => match self.pages.last() {
                Some(Page::Help(_)) => drop(self.pages.pop()),
                _ => self.pages.push(Page::Help(Scroll::default())),
            },
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if let Some(tab) = self.tabs().nth(at) {
                    self.tab = tab;
                    self.pages.clear();
                }
            }
            KeyCode::Tab | KeyCode::BackTab => {
                let tabs: Vec<Tab> = self.tabs().collect();
                let at = tabs.iter().position(|tab| *tab == self.tab).unwrap_or(0);
                let step = if code == KeyCode::Tab { 1 } else { tabs.len() - 1 };
                if let Some(tab) = tabs.get((at + step) % tabs.len()) {
                    self.tab = *tab;
                    self.pages.clear();
                }
            }
            _ => return false,
        }
        true
    }

    fn table_key(&mut self, code: KeyCode) -> Vec<Act> {
        if code == KeyCode::Char('q') {
            return vec![Act::Quit];
        }
        if self.common_key(code) {
            return Vec::new();
        }
        let Some(kind) = self.kind() else {
            scroll_key(&self.messages_scroll, code);
            return Vec::new();
        };
        let (Some(data), Some(shown)) = (&self.data, self.lists.get_mut(&kind)) else {
            return Vec::new();
        };
        let list = lists::listing(kind, data, &shown.choice);
        let columns = list.columns.len();
        let Shown { choice, cursor } = shown;
        let target = list.rows.get(cursor.row).map(|row| (row.target.clone(), row.key.clone()));
        match code {
            code if steps(code, cursor.page()).is_some() => {
                cursor.go(&list.rows, steps(code, cursor.page()).unwrap_or(0));
            }
            KeyCode::Char('/') => self.input = Some(Input::Search),
            KeyCode::Esc => choice.search.clear(),
            KeyCode::Char('i') => choice.hides_idle = !choice.hides_idle,
            KeyCode::Char('r') => {
                choice.sorted = choice.sorted.map(|(column, reversed)| (column, !reversed));
            }
            KeyCode::Char('o') => choice.sorted = None,
            KeyCode::Char('>' | '.') => {
                let next = choice.sorted.map_or(0, |(column, _)| column + 1);
                choice.sorted = Some((next % columns.max(1), false));
            }
            KeyCode::Char('<' | ',') => {
                let column = choice.sorted.map_or(0, |(column, _)| column);
                choice.sorted = Some(((column + columns.max(1) - 1) % columns.max(1), false));
            }
            KeyCode::Char('F') => {
                let all = lists::groups(kind, data);
                choice.folded = if choice.folded.is_empty() { all } else { Default::default() };
            }
            KeyCode::Enter
            | KeyCode::Char('f')
            | KeyCode::Left
            | KeyCode::Right
            | KeyCode::Char('h' | 'l') => {
                if let Some((target, key)) = target {
                    return self.open(code, &target, &key);
                }
            }
            _ => {}
        }
        self.settle();
        Vec::new()
    }

    /// Opens what a row stands for, folds it, or unfolds it.
    fn open(&mut self, code: KeyCode, target: &Target, key: &str) -> Vec<Act> {
        let folds = matches!(code, KeyCode::Left | KeyCode::Char('h'));
        let unfolds = matches!(code, KeyCode::Right | KeyCode::Char('l'));
        let opens = code == KeyCode::Enter;
        let shown = self.kind().and_then(|kind| self.lists.get_mut(&kind));
        let Some(Shown { choice, cursor }) = shown else { return Vec::new() };
        match target {
            Target::Group { name, folded } => {
                let fold = if folds {
                    true
                } else if unfolds {
                    false
                } else {
                    !folded
                };
                match fold {
                    true => choice.folded.insert(name.clone()),
                    false => choice.folded.remove(name),
                };
                cursor.choose(name);
            }
            Target::Element(name) if opens => {
                let (page, request) = ElementPage::open(name);
                self.pages.push(Page::Element(page));
                return vec![Act::Ask(request)];
            }
            // The compound element around it.
            Target::Element(name) if folds => {
                if let Some((around, _)) = name.rsplit_once('/') {
                    cursor.choose(around);
                }
            }
            Target::Element(_) | Target::Nothing => {}
        }
        let _ = key;
        self.settle();
        Vec::new()
    }

    fn page_key(&mut self, code: KeyCode) -> Vec<Act> {
        if matches!(code, KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('q')) {
            self.pages.pop();
            return Vec::new();
        }
        if self.common_key(code) {
            return Vec::new();
        }
        match self.pages.last_mut() {
            Some(Page::Help(scroll)) => scroll_key(scroll, code),
            Some(Page::Text(page)) => match (code, &page.handler) {
                (KeyCode::Char('r') | KeyCode::Enter, Some(handler)) => {
                    return vec![Act::Ask(Request::Read(handler.clone()))];
                }
                (code, _) => scroll_key(&page.scroll, code),
            },
            Some(Page::Element(_)) => return self.element_key(code),
            None => {}
        }
        Vec::new()
    }

    fn element_key(&mut self, code: KeyCode) -> Vec<Act> {
        let (Some(Page::Element(page)), Some(data)) = (self.pages.last_mut(), &self.data) else {
            return Vec::new();
        };
        if let Some(by) = steps(code, page.scroll.page()) {
            let last = page.items(data).len().saturating_sub(1);
            page.item = page.item.min(last).saturating_add_signed(by).min(last);
            // What stands above the first item is seen again.
            if page.item == 0 {
                page.scroll.go(isize::MIN);
            }
            return Vec::new();
        }
        match (code, page.chosen(data)) {
            (KeyCode::Char('m'), _) => {
                let class = data.find(&page.name).and_then(|at| data.now.elements.get(at));
                let class = class.map_or(String::new(), |element| element.class.clone());
                let page = match (self.manual)(&class) {
                    Some(manual) => TextPage::new(&class, &manual),
                    None => TextPage::new(&class, "This program does not know the class."),
                };
                self.pages.push(Page::Text(page));
            }
            (KeyCode::Char('r'), _) => {
                page.values.clear();
                return vec![Act::Ask(Request::Handlers(page.name.clone()))];
            }
            (KeyCode::Enter, Some(Item::Edge(edge))) => {
                let (next, request) = ElementPage::open(&edge.other);
                self.pages.push(Page::Element(next));
                return vec![Act::Ask(request)];
            }
            (KeyCode::Enter, Some(Item::Handler(handler))) if handler.read => {
                return vec![Act::Ask(Request::Read(page.path(&handler)))];
            }
            (KeyCode::Char('w') | KeyCode::Enter, Some(Item::Handler(handler))) => {
                if handler.write {
                    let text = match page.values.get(&handler.name) {
                        Some(Ok(value)) if value != "..." => value.clone(),
                        _ => String::new(),
                    };
                    self.input = Some(Input::Write { handler: page.path(&handler), text });
                } else {
                    self.said = Some((format!("{} can only be read", handler.name), Ink::Bad));
                }
            }
            _ => {}
        }
        Vec::new()
    }
}

/// How far a key moves; none if it moves nothing.
fn steps(code: KeyCode, page: isize) -> Option<isize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -page,
        KeyCode::PageDown => page,
        KeyCode::Home | KeyCode::Char('g') => isize::MIN,
        KeyCode::End | KeyCode::Char('G') => isize::MAX,
        _ => return None,
    })
}

fn scroll_key(scroll: &Scroll, code: KeyCode) {
    if let Some(by) = steps(code, scroll.page()) {
        scroll.go(by);
    }
}

/// Changes typed text.
fn edit(text: &mut String, code: KeyCode) {
    /// Nobody types more.
    const LONGEST: usize = 4096;
    match code {
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char(c) if text.len() < LONGEST => text.push(c),
        _ => {}
    }
}
