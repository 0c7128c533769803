//! The words of a command, and the role of each.
//!
//! The user is asked again when the code that runs has changed, and not when data has: a log that a trusted hook writes
//! grows with every run. Only the command tells the two apart, so this finds words that are certainly data, and treats
//! the rest as code.

/// Maximum depth of nested quotes and commands.
const MAX_DEPTH: usize = 3;
const MAX_COMMANDS_WITHIN: usize = 8;

/// The role of a word in its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It runs: it is the program, or the script of an interpreter.
    Runs,
    /// It may be loaded: it is in the environment, or an argument of an interpreter.
    Loads,
    /// It is an ordinary argument.
    Given,
}

/// The words of commands that may be the names of files. Files that a command only writes are not among them.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<(String, Role)>);

impl Words {
    /// Adds a line for a shell.
    pub(crate) fn line(&mut self, line: &str) {
        self.line_at(line, 0);
    }

    /// Adds a program with its arguments, which no shell parses.
    pub(crate) fn program<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        let words = words.into_iter().map(|word| Token::Word(word.to_owned()));
        self.command(words.collect(), 0);
    }

    /// Adds a text that commands find in their environment, such as the value of a variable.
    pub(crate) fn surrounding(&mut self, text: &str) {
        self.add(text, Role::Loads, 0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Role)> {
        self.0.iter().map(|(word, role)| (word.as_str(), *role))
    }

    fn line_at(&mut self, line: &str, depth: usize) {
        let mut tokens = Vec::new();
        tokenize(line, 0, &mut tokens);
        self.command(tokens, depth);
    }

    fn command(&mut self, tokens: Vec<Token>, depth: usize) {
        let mut place = Source::default();
        let mut leads = None;
        for token in tokens {
            match token {
                Token::Next => (place, leads) = (Source::default(), None),
                Token::Into | Token::From => leads = Some(token),
                Token::Word(word) => match leads.take() {
                    // A file that is written did not exist when the user decided.
                    Some(Token::Into) => {}
                    Some(_) => self.add(&word, Role::Runs, depth),
                    None => {
                        if let Some((text, role)) = place.take(&word) {
                            self.add(text, role, depth);
                        }
                    }
                },
            }
        }
    }

    fn add(&mut self, word: &str, role: Role, depth: usize) {
        if word.is_empty() {
            return;
        }
        self.0.push((word.to_owned(), role));
        // As in `--config=x,y`.
        let parts = word.split(['=', ',']);
        let parts = parts.filter(|part| part.len() < word.len() && !part.is_empty());
        self.0.extend(parts.map(|part| (part.to_owned(), role)));
        // A word can be a line itself, such as that of `sh -c`.
        let inner = |c: char| is_end(c) || matches!(c, '\'' | '"');
        if depth < MAX_DEPTH && word.contains(inner) {
            self.line_at(word, depth + 1);
        }
    }
}

/// The position in a command of the next word.
#[derive(Debug, Default)]
struct Source {
    /// Whether its program has come.
    has_program: bool,
    /// How a preceding interpreter uses it.
    behind: Behind,
    is_after_option: bool,
    treats: Option<Treats>,
}

/// The argument that an interpreter still waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Behind {
    #[default]
    Nothing,
    /// The program to run.
    Interpreter,
    /// The same, unless the word after an option was the option's value.
    InterpreterAndOption,
}

/// How a well-known program uses its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treats {
    /// It writes or deletes them.
    Writes,
    /// It reads them, and at most formats them.
    Reads,
}

impl Source {
    /// The part of a word that may be a file, and its role; `None` if it certainly does not run.
    fn take<'w>(&mut self, word: &'w str) -> Option<(&'w str, Role)> {
        if !self.has_program {
            if let Some((_, value)) = word.split_once('=').filter(|(name, _)| is_variable(name)) {
                return Some((value, Role::Loads));
            }
            if BEFORE_PROGRAMS.contains(&word) {
                return None;
            }
            self.has_program = true;
            if matches!(word, "." | "source") {
                self.behind = Behind::Interpreter;
            }
            if WRITERS.contains(&word) {
                self.treats = Some(Treats::Writes);
            }
            self.learn(word);
            return Some((word, Role::Runs));
        }
        let is_behind = self.behind != Behind::Nothing;
        if word.starts_with('-') && word.len() > 1 {
            self.is_after_option = !word.contains('=') && !PLAIN_OPTIONS.contains(&word);
            let role = if is_behind { Role::Runs } else { Role::Given };
            return Some((word, role));
        }
        let is_after_option = std::mem::take(&mut self.is_after_option);
        let role = match self.behind {
            Behind::Nothing => Role::Given,
            Behind::Interpreter => Role::Runs,
            Behind::InterpreterAndOption => Role::Loads,
        };
        self.behind = match (is_behind, is_after_option) {
            (true, true) => Behind::InterpreterAndOption,
            (true, false) | (false, _) => Behind::Nothing,
        };
        self.learn(word);
        match self.treats {
            Some(Treats::Writes) => None,
            Some(Treats::Reads) if !is_after_option => None,
            Some(Treats::Reads) | None => Some((word, role)),
        }
    }

    /// Recognizes programs that others start, as in `env python3` or `npx eslint`.
    fn learn(&mut self, word: &str) {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if INTERPRETERS.contains(&name) {
            self.behind = Behind::Interpreter;
        }
        if READERS.contains(&word) {
            self.treats = Some(Treats::Reads);
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Words before the program of a command.
const BEFORE_PROGRAMS: &[&str] = &[
    "!", "{", "}", "builtin", "command", "do", "done", "elif", "else", "exec", "fi", "if", "nohup", "then", "time",
    "until", "while",
];

/// Programs that run the file they are given, whatever its name.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "cmd",
    "cscript",
    "dash",
    "deno",
    "dotnet",
    "elixir",
    "expect",
    "fish",
    "gawk",
    "gmake",
    "groovy",
    "java",
    "julia",
    "just",
    "ksh",
    "lua",
    "make",
    "mawk",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "rake",
    "Rscript",
    "ruby",
    "sh",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "wscript",
    "zsh",
];

/// Programs that only write or delete the files they are given.
const WRITERS: &[&str] = &["mkdir", "rm", "rmdir", "tee", "touch", "truncate"];

/// Programs that check or format the files they are given, and do not run them. The word after one of their options may
/// be something else, unless the option takes no value.
const READERS: &[&str] = &[
    "biome",
    "black",
    "clang-format",
    "eslint",
    "flake8",
    "gofmt",
    "golint",
    "goimports",
    "isort",
    "ktlint",
    "markdownlint",
    "mypy",
    "oxlint",
    "prettier",
    "pyright",
    "rubocop",
    "ruff",
    "rustfmt",
    "shellcheck",
    "shfmt",
    "stylelint",
    "swiftformat",
    "swiftlint",
    "tsc",
    "yamllint",
];

/// Options without a value.
const PLAIN_OPTIONS: &[&str] = &[
    "--check",
    "--diff",
    "--fix",
    "--list-different",
    "--noEmit",
    "--quiet",
    "--silent",
    "--write",
    "-d",
    "-l",
    "-q",
    "-w",
];

enum Token {
    Word(String),
    /// Another command begins.
    Next,
    /// The next word is the target of output.
    Into,
    /// The next word is the source of input.
    From,
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`')
}

/// Splits a line like a shell. A nested command, as in `$(pwd)/x`, is replaced by an unknown variable; the nested
/// command itself comes first.
fn tokenize(line: &str, depth: usize, tokens: &mut Vec<Token>) {
    let (mut word, mut quote, mut own) = (String::new(), None, Vec::new());
    let mut chars = line.chars().peekable();
    let end = |word: &mut String, own: &mut Vec<Token>| {
        if !word.is_empty() {
            own.push(Token::Word(std::mem::take(word)));
        }
    };
    while let Some(c) = chars.next() {
        let is_bare = quote.is_none();
        let may_hold_command = quote != Some('\'') && depth < MAX_COMMANDS_WITHIN;
        match c {
            c if quote == Some(c) => quote = None,
            '\'' | '"' if is_bare => quote = Some(c),
            '\\' if quote != Some('\'') && !cfg!(windows) => word.extend(chars.next()),
            '$' if may_hold_command && chars.peek() == Some(&'(') => {
                chars.next();
                within(until_closed(&mut chars), depth, tokens);
                word.push_str("${_}");
            }
            '`' if may_hold_command => {
                within(chars.by_ref().take_while(|c| *c != '`').collect(), depth, tokens);
                word.push_str("${_}");
            }
            '>' | '<' if is_bare => {
                // The number of a redirected descriptor, as in `2> x`.
                if word.chars().all(|c| c.is_ascii_digit()) {
                    word.clear();
                }
                end(&mut word, &mut own);
                while chars.next_if(|next| matches!(next, '>' | '<' | '|' | '&')).is_some() {}
                own.push(if c == '>' { Token::Into } else { Token::From });
            }
            c if is_bare && is_end(c) => {
                end(&mut word, &mut own);
                if c == '\n' || !c.is_whitespace() {
                    own.push(Token::Next);
                }
            }
            c => word.push(c),
        }
    }
    end(&mut word, &mut own);
    tokens.append(&mut own);
}

fn within(line: String, depth: usize, tokens: &mut Vec<Token>) {
    tokenize(&line, depth + 1, tokens);
    tokens.push(Token::Next);
}

/// The rest of `$(…)`.
fn until_closed(chars: &mut impl Iterator<Item = char>) -> String {
    let (mut text, mut open) = (String::new(), 1);
    for c in chars {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(line: &str, word: &str) -> Vec<Role> {
        let mut words = Words::default();
        words.line(line);
        let found = words.iter().filter(|(found, _)| *found == word);
        found.map(|(_, role)| role).collect()
    }

    #[test]
    fn files_that_a_command_runs_count_and_those_it_writes_do_not() {
        use Role::{Given, Loads, Runs};
        for (line, word, expected) in [
            ("./x", "./x", &[Runs][..]),
            ("A=b ./x", "./x", &[Runs]),
            ("LD_PRELOAD=./x y", "./x", &[Loads]),
            ("true && ./x", "./x", &[Runs]),
            ("if true\nthen ./x; fi", "./x", &[Runs]),
            ("sh x", "x", &[Runs]),
            ("/bin/sh -e x", "x", &[Runs]),
            ("timeout 5 python3.12 x", "x", &[Runs]),
            ("sh x y", "y", &[Given]),
            ("python3 -u x y", "x", &[Runs]),
            ("python3 -u x y", "y", &[Loads]),
            ("node --require=x y", "x", &[Runs]),
            ("node --require x y z", "z", &[Given]),
            (". x", "x", &[Runs]),
            ("make -f x all", "x", &[Runs]),
            ("sh < x", "x", &[Runs]),
            ("sh 2>/dev/null x", "x", &[Runs]),
            ("cat x | sh", "x", &[Given]),
            ("cat >> x", "x", &[]),
            ("cat >>x", "x", &[]),
            ("cat 2> x", "x", &[]),
            ("cat &> x", "x", &[]),
            ("cat >& x", "x", &[]),
            ("cat >| x", "x", &[]),
            ("cat >> 'x'", "x", &[]),
            ("sh -c 'cat >> x'", "x", &[]),
            ("cat >> x; sh x", "x", &[Runs]),
            ("date | tee -a x", "x", &[]),
            ("touch x && ./x", "./x", &[Runs]),
            ("cat > >(sh x)", "x", &[Runs]),
            ("echo 2>&1 x", "x", &[Given]),
            ("eslint x", "x", &[]),
            ("npx eslint --fix x", "x", &[]),
            ("eslint -c x y", "x", &[Given]),
            ("./eslint x", "x", &[Given]),
            ("echo \"$(sh x)\"", "x", &[Runs]),
            ("echo `sh x`", "x", &[Runs]),
            ("$(sh x)/y", "${_}/y", &[Runs]),
            ("cat >> $(pwd)/x", "${_}/x", &[]),
            ("cat >> \"`pwd`/x\"", "${_}/x", &[]),
            ("node -e \"require('./x')\"", "./x", &[Runs]),
        ] {
            assert_eq!(roles(line, word), expected, "{line}");
        }
    }

    #[test]
    fn a_line_in_lines_in_lines_ends() {
        let mut words = Words::default();
        words.line(&"$(".repeat(2000));
        words.line(&"\"'".repeat(2000));
        words.line(&"`$(".repeat(2000));
    }
}
