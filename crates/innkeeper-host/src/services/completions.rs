//! Completions while a user types: files and resources of MCP servers after an `@`; commands of the agent, skills and
//! prompts of the session after a `/`.

pub(crate) mod effects;

use std::time::Duration;

use ahp_types::commands::{CompletionItem, CompletionsResult};
use ahp_types::state::{MessageAttachment, MessageResourceAttachment, SimpleMessageAttachment};
use async_trait::async_trait;
use innkeeper_core::agent::CommandInfo;
use serde_json::{Map, Value, json};

use crate::services::customizations::{Callable, TurnCustomizations};
use crate::services::mcp::{MAX_ARGUMENTS, Mcp, McpPrompt, McpResource, display_line, prompts};

/// The most items of one answer; a longer list only slows down typing.
const MAX_ITEMS: usize = 50;
/// Maximum number of them that MCP servers let read.
const MAX_RESOURCES: usize = 20;

/// Finds files for the user who types `@` and a part of a name.
///
/// It is asked on every few keystrokes, so it answers soon rather than completely (CMP-01), and
/// it never shows what lies outside the given directories.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Finds at most `limit` files, the best first. `directories` are URIs; what it cannot look
    /// into, it passes over.
    async fn find(&self, directories: &[String], query: &str, limit: usize) -> Vec<FoundFile>;

    /// Says what is wrong with a directory that a session is to work in, by its `file:` URI. By
    /// default nothing is, because a host need not have the files of its sessions.
    async fn check_directory(&self, _uri: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A file that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its location.
    pub uri: String,
    /// The label that users see: its path within its directory, with `/` on every system.
    pub label: String,
    /// Distinguishes it from others of the same label, such as the directory it is in.
    pub description: Option<String>,
}

/// A host that completes no files.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

#[async_trait]
impl Files for NoFiles {
    async fn find(&self, _: &[String], _: &str, _: usize) -> Vec<FoundFile> {
        Vec::new()
    }
}

/// A position in a message that a user is typing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletionContext<'a> {
    /// The working directories of the chat, as URIs.
    pub(crate) directories: &'a [String],
    /// The message so far.
    pub(crate) text: &'a str,
    /// The place of the cursor, in UTF-16 code units.
    pub(crate) offset: usize,
    /// The agent's slash commands.
    pub(crate) commands: &'a [CommandInfo],
    /// The customizations of the session.
    pub(crate) customizations: &'a TurnCustomizations,
    /// How long MCP servers have to say what they offer.
    pub(crate) timeout: Duration,
}

/// The result of `completions` (CMP-02, CMP-03).
pub(crate) async fn completions(files: &dyn Files, cursor: CompletionContext<'_>) -> Value {
    let items = match token_at(cursor.text, cursor.offset) {
        None => Vec::new(),
        Some(token) if token.mark == '@' => {
            let mcp = cursor.customizations.mcp();
            let (found, offered) = tokio::join!(
                files.find(cursor.directories, token.query, MAX_ITEMS),
                mcp.resources(cursor.timeout),
            );
            let query = token.query.to_lowercase();
            let offered = offered.into_iter().filter(|resource| resource.fits(&query));
            let offered: Vec<_> = offered.take(MAX_RESOURCES).collect();
            // Room is left for them: a workspace has more files than a list has lines.
            let found = found.into_iter().take(MAX_ITEMS - offered.len());
            let found = found.map(|file| file_item(&token, file));
            let offered = offered.iter().map(|resource| resource_item(&token, mcp, resource));
            found.chain(offered).collect()
        }
        Some(token) => {
            let query = token.query.to_lowercase();
            let own = cursor.commands.iter().filter(|command| fits(&command.name, &query));
            let own = own.map(|command| command_item(&token, command));
            let taken: Vec<&str> = cursor.commands.iter().map(|command| command.name.as_str()).collect();
            let called = cursor.customizations.callable(&taken);
            // The second half of `plugin:name` is enough to find it.
            let fitting = called
                .iter()
                .filter(|(name, callable)| fits(name, &query) || fits(&callable.about().name, &query));
            let items = fitting.map(|(name, callable)| callable_item(&token, name, *callable));
            let mut items: Vec<_> = own.chain(items).collect();
            let is_taken = |name: &str| taken.contains(&name) || called.iter().any(|(called, _)| called == name);
            for mut prompt in cursor.customizations.mcp_prompts(cursor.timeout).await {
                if is_taken(&prompt.name) {
                    prompt.name = format!("{}{}", prompts::PREFIX, prompt.name);
                }
                // The second half is enough to find it.
                if fits(&prompt.name, &query) || fits(&prompt.prompt, &query) {
                    items.push(prompt_item(&token, &prompt));
                }
            }
            items.truncate(MAX_ITEMS);
            items
        }
    };
    json!(CompletionsResult { items })
}

/// A file becomes a reference. Clients drop items without the `_meta` they look for (CMP-04,
/// E-51), and send it back with the message.
fn file_item(token: &Token<'_>, file: FoundFile) -> CompletionItem {
    let mut meta = Map::new();
    meta.insert("uri".to_owned(), json!(file.uri));
    if let Some(description) = file.description {
        meta.insert("description".to_owned(), json!(description));
    }
    token.item(
        format!("@{}", file.label),
        MessageAttachment::Resource(MessageResourceAttachment {
            label: file.label,
            range: None,
            display_kind: Some("document".to_owned()),
            meta: Some(meta),
            uri: file.uri,
            size_hint: None,
            content_type: None,
            nonce: None,
            selection: None,
        }),
    )
}

fn fits(name: &str, query: &str) -> bool {
    name.to_lowercase().starts_with(query)
}

/// Says what may follow the name of a command. Clients that show it as ghost text know it as `argumentHint`.
fn add_usage(meta: &mut Map<String, Value>, usage: &str) {
    meta.insert("usage".to_owned(), json!(usage));
    meta.insert("argumentHint".to_owned(), json!(usage));
}

fn command_item(token: &Token<'_>, command: &CommandInfo) -> CompletionItem {
    let mut meta = Map::new();
    meta.insert("description".to_owned(), json!(command.description));
    if !command.usage.is_empty() {
        add_usage(&mut meta, &command.usage);
    }
    slash_item(token, &command.name, meta)
}

/// A skill or a prompt is called like a command, and says which customization it is.
fn callable_item(token: &Token<'_>, name: &str, callable: Callable<'_>) -> CompletionItem {
    let about = callable.about();
    let mut meta = Map::new();
    if let Some(description) = &about.description {
        meta.insert("description".to_owned(), json!(description));
    }
    if let Some(hint) = callable.argument_hint() {
        add_usage(&mut meta, hint);
    }
    let kind = match callable {
        Callable::Skill(_) => "skill",
        Callable::Prompt(_) => "prompt",
    };
    let customization = json!({ "id": about.id, "uri": about.uri, "type": kind });
    meta.insert("customization".to_owned(), customization);
    slash_item(token, name, meta)
}

/// A prompt of an MCP server is called like a command. Its texts come from the server, so they are bounded.
fn prompt_item(token: &Token<'_>, prompt: &McpPrompt) -> CompletionItem {
    let mut meta = Map::new();
    if let Some(description) = prompt.shown_description() {
        meta.insert("description".to_owned(), json!(description));
    }
    let usage = prompt.usage();
    if !usage.is_empty() {
        add_usage(&mut meta, &usage);
    }
    let arguments = prompt.arguments.iter().take(MAX_ARGUMENTS).map(|argument| {
        let description = argument.description.as_deref().map(display_line);
        json!({ "name": display_line(&argument.name), "description": description, "required": argument.required })
    });
    let arguments: Vec<Value> = arguments.collect();
    let title = prompt.title.as_deref().map(display_line);
    let about = json!({ "server": prompt.server, "prompt": display_line(&prompt.prompt), "title": title, "arguments": arguments });
    meta.insert("mcpPrompt".to_owned(), about);
    slash_item(token, &prompt.name, meta)
}

/// A resource of an MCP server becomes a reference under a URI of the host's own.
fn resource_item(token: &Token<'_>, mcp: &Mcp, resource: &McpResource) -> CompletionItem {
    let uri = mcp.resource_uri(resource);
    let mut meta = Map::new();
    meta.insert("uri".to_owned(), json!(uri));
    let what = resource.description.as_deref().map(display_line);
    let what = what.map_or_else(String::new, |what| format!(": {what}"));
    let description = format!("{}{what}", display_line(&resource.server_name));
    meta.insert("description".to_owned(), json!(description));
    let about = json!({ "server": resource.server, "uri": display_line(&resource.uri) });
    meta.insert("mcpResource".to_owned(), about);
    let one_word = |text: &str| display_line(text).replace(char::is_whitespace, "_");
    token.item(
        format!("@{}:{}", one_word(&resource.server_name), one_word(&resource.name)),
        MessageAttachment::Resource(MessageResourceAttachment {
            label: resource.shown_name(),
            range: None,
            display_kind: Some("document".to_owned()),
            meta: Some(meta),
            uri,
            size_hint: resource.size.and_then(|size| i64::try_from(size).ok()),
            content_type: resource.content_type.as_deref().map(display_line),
            nonce: None,
            selection: None,
        }),
    )
}

/// Clients look for `command` in `_meta` (CMP-04).
fn slash_item(token: &Token<'_>, name: &str, mut meta: Map<String, Value>) -> CompletionItem {
    meta.insert("command".to_owned(), json!(name));
    token.item(
        format!("/{name} "),
        MessageAttachment::Simple(SimpleMessageAttachment {
            label: format!("/{name}"),
            range: None,
            display_kind: None,
            meta: Some(meta),
            // The text of the message already says all of it.
            model_representation: None,
        }),
    )
}

/// The token at the cursor: a mark, the text after it, and the range that a completion replaces.
#[derive(Debug, PartialEq, Eq)]
struct Token<'a> {
    mark: char,
    query: &'a str,
    /// UTF-16 code units.
    start: usize,
    /// UTF-16 code units.
    end: usize,
}

impl Token<'_> {
    fn item(&self, insert_text: String, attachment: MessageAttachment) -> CompletionItem {
        CompletionItem {
            insert_text,
            range_start: i64::try_from(self.start).ok(),
            range_end: i64::try_from(self.end).ok(),
            attachment,
        }
    }
}

/// Finds the token at a place. A `/` is one at the very start of a message, an `@` wherever a word
/// can start, so that an address such as `me@example.org` is not a trigger.
fn token_at(text: &str, offset: usize) -> Option<Token<'_>> {
    let cursor = byte_at(text, offset);
    let (before, after) = text.split_at(cursor);
    let word_start = before
        .char_indices()
        .rev()
        .find(|(_, c)| c.is_whitespace())
        .map_or(0, |(index, c)| index + c.len_utf8());
    let word = &before[word_start..];
    let (mark, start) = if word_start == 0 && word.starts_with('/') {
        ('/', 0)
    } else {
        let opens = |(index, _): &(usize, &str)| !word[..*index].ends_with(char::is_alphanumeric);
        let (index, _) = word.match_indices('@').find(opens)?;
        ('@', word_start + index)
    };
    Some(Token {
        mark,
        query: &before[start + mark.len_utf8()..],
        start: units(&text[..start]),
        end: units(before) + units(&after[..rest_of_word(after)]),
    })
}

/// How much of what follows the cursor belongs to the word it stands in: the rest of a path or of a name such as
/// `plugin:name`, but not the full stop or the colon after it.
fn rest_of_word(after: &str) -> usize {
    let is_path = |c: char| c.is_alphanumeric() || "/_-.:".contains(c);
    let end = after.find(|c| !is_path(c)).unwrap_or(after.len());
    after[..end].trim_end_matches(['.', ':']).len()
}

/// The byte that a UTF-16 offset stands for. One in the middle of a character stands before it.
fn byte_at(text: &str, offset: usize) -> usize {
    let mut passed = 0;
    for (index, c) in text.char_indices() {
        passed += c.len_utf16();
        if passed > offset {
            return index;
        }
    }
    text.len()
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::services::customizations::{About, CustomizationSet, PromptFile, Skill};

    /// The cursor is where the bar is.
    fn token(marked: &str) -> Option<(char, String, usize, usize)> {
        let at = marked.find('|').expect("a cursor");
        let text = marked.replacen('|', "", 1);
        let token = token_at(&text, units(&marked[..at]))?;
        Some((token.mark, token.query.to_owned(), token.start, token.end))
    }

    #[test]
    fn cmp02_the_token_is_the_word_at_the_cursor() {
        let cases = [
            ("@|", Some(('@', "", 0, 1))),
            ("see @ma|", Some(('@', "ma", 4, 7))),
            ("see @src/ma|in.rs now", Some(('@', "src/ma", 4, 16))),
            ("see (@ma|)", Some(('@', "ma", 5, 8))),
            ("end with @ma|.", Some(('@', "ma", 9, 12))),
            ("see @a |", None),
            ("me@example|", None),
            ("@types/@no|", Some(('@', "types/@no", 0, 10))),
            ("/re|", Some(('/', "re", 0, 3))),
            ("/|", Some(('/', "", 0, 1))),
            ("/plug|in:name now", Some(('/', "plug", 0, 12))),
            ("see @in|n:rooms: all", Some(('@', "in", 4, 14))),
            ("/repeat @a|", Some(('@', "a", 8, 10))),
            ("and /re|", None),
            ("|@a", None),
            ("|", None),
            ("plain|", None),
            // One character of two code units and four bytes before it.
            ("😀 @ma|", Some(('@', "ma", 3, 6))),
            ("line\n@ü|ber", Some(('@', "ü", 5, 10))),
        ];
        for (marked, expected) in cases {
            let expected = expected
                .map(|(mark, query, start, end): (char, &str, usize, usize)| (mark, query.to_owned(), start, end));
            assert_eq!(token(marked), expected, "{marked:?}");
        }
    }

    #[test]
    fn cmp02_an_offset_within_a_character_or_beyond_the_text_does_no_harm() {
        let text = "@😀";
        for offset in 0..10 {
            let token = token_at(text, offset);
            assert_eq!(token.is_some(), offset > 0, "{offset}");
        }
        assert_eq!(token_at(text, 2).map(|token| token.query), Some(""));
    }

    struct Shelf;

    #[async_trait]
    impl Files for Shelf {
        async fn find(&self, directories: &[String], query: &str, limit: usize) -> Vec<FoundFile> {
            assert_eq!(
                (directories, query, limit),
                (&["file:///w".to_owned()][..], "ma", MAX_ITEMS)
            );
            vec![FoundFile {
                uri: "file:///w/src/main.rs".to_owned(),
                label: "src/main.rs".to_owned(),
                description: Some("w".to_owned()),
            }]
        }
    }

    fn command(name: &str) -> CommandInfo {
        CommandInfo {
            name: name.to_owned(),
            usage: String::new(),
            description: format!("Does {name}."),
        }
    }

    async fn complete(text: &str, commands: &[CommandInfo]) -> Value {
        complete_with(text, commands, TurnCustomizations::default()).await
    }

    async fn complete_with(text: &str, commands: &[CommandInfo], customizations: TurnCustomizations) -> Value {
        let cursor = CompletionContext {
            directories: &["file:///w".to_owned()],
            text,
            offset: units(text),
            commands,
            customizations: &customizations,
            timeout: Duration::from_secs(1),
        };
        completions(&Shelf, cursor).await
    }

    #[tokio::test]
    async fn cmp03_cmp04_a_file_is_a_resource_with_its_uri_in_meta() {
        let result = complete("see @ma", &[]).await;
        let expected = json!({ "items": [{
            "insertText": "@src/main.rs", "rangeStart": 4, "rangeEnd": 7,
            "attachment": {
                "type": "resource", "label": "src/main.rs", "uri": "file:///w/src/main.rs", "displayKind": "document",
                "_meta": { "uri": "file:///w/src/main.rs", "description": "w" },
            },
        }] });
        assert_eq!(result, expected);
        let _: CompletionsResult = serde_json::from_value(result).expect("the published type reads it");
    }

    #[tokio::test]
    async fn cmp03_cmp04_a_command_is_an_attachment_with_its_name_in_meta() {
        let commands = [command("repeat"), command("Report"), command("stop")];
        let result = complete("/RE", &commands).await;
        let expected = json!({
            "insertText": "/repeat ", "rangeStart": 0, "rangeEnd": 3,
            "attachment": {
                "type": "simple", "label": "/repeat", "_meta": { "command": "repeat", "description": "Does repeat." },
            },
        });
        assert_eq!(result["items"][0], expected);
        assert_eq!(result["items"].as_array().map(Vec::len), Some(2));
        assert_eq!(complete("/nothing", &commands).await, json!({ "items": [] }));
        assert_eq!(complete("words", &commands).await, json!({ "items": [] }));
    }

    fn about(id: &str, plugin: Option<&str>, name: &str) -> About {
        About {
            id: id.to_owned(),
            container: "box".to_owned(),
            plugin: plugin.map(str::to_owned),
            uri: format!("file:///w/{id}"),
            name: name.to_owned(),
            description: Some(format!("About {id}.")),
            ..About::default()
        }
    }

    #[tokio::test]
    async fn cus24_skills_and_prompts_follow_the_commands_by_their_names() {
        let skill = |id: &str, plugin, name: &str| Skill {
            about: about(id, plugin, name),
            argument_hint: Some("<what>".to_owned()),
            for_users: true,
            ..Skill::default()
        };
        let hidden = Skill {
            for_users: false,
            ..skill("hidden", None, "reveal")
        };
        let skills = vec![
            hidden,
            skill("mine", None, "review"),
            skill("again", None, "review"),
            skill("theirs", Some("set"), "review"),
            skill("off", None, "rest"),
            skill("own", Some("set"), "repeat"),
        ];
        let prompts = vec![PromptFile {
            about: about("prompt", None, "release"),
            ..PromptFile::default()
        }];
        let set = CustomizationSet {
            skills,
            prompts,
            ..CustomizationSet::default()
        };
        let customizations = TurnCustomizations::new(Arc::new(set), Arc::new(["off".to_owned()].into()));
        let result = complete_with("/re", &[command("repeat")], customizations).await;
        let items = result["items"].as_array().expect("items");
        let labels: Vec<&str> = items
            .iter()
            .filter_map(|item| item["attachment"]["label"].as_str())
            .collect();
        assert_eq!(labels, ["/repeat", "/review", "/set:review", "/set:repeat", "/release"]);
        let expected = json!({
            "command": "set:review", "description": "About theirs.", "usage": "<what>", "argumentHint": "<what>",
            "customization": { "id": "theirs", "uri": "file:///w/theirs", "type": "skill" },
        });
        assert_eq!(items[2]["attachment"]["_meta"], expected);
        assert_eq!(items[2]["insertText"], "/set:review ");
    }

    #[tokio::test]
    async fn cmp01_a_host_without_files_finds_none() {
        let cursor = CompletionContext {
            directories: &[],
            text: "@",
            offset: 1,
            commands: &[],
            customizations: &TurnCustomizations::default(),
            timeout: Duration::from_secs(1),
        };
        assert_eq!(completions(&NoFiles, cursor).await, json!({ "items": [] }));
    }
}
