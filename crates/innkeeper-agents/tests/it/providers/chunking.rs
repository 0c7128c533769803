//! Providers split their streams anywhere. The answer must not depend on it.

use innkeeper_agents::model::api::ModelEvent;
use innkeeper_testkit::model_server::{Api, Ending, Reply, transcript};
use proptest::prelude::*;
use serde_json::json;

use crate::providers::support::{AnswerContent, decoder};

/// Events of a model.
#[derive(Debug, Clone)]
enum Utterance {
    Reasoning(String),
    Text(String),
    Call(String, String),
}

fn words() -> impl Strategy<Value = String> {
    // Characters of every UTF-8 length, JSON escapes, and both kinds of line endings.
    proptest::collection::vec(
        prop_oneof![
            Just("a"),
            Just("ö"),
            Just("€"),
            Just("😀"),
            Just("\""),
            Just("\\"),
            Just("\n"),
            Just("\r\n"),
            Just("\u{2028}"),
            Just("data: x"),
            Just(" ")
        ],
        1..12,
    )
    .prop_map(|pieces| pieces.concat())
}

fn utterances() -> impl Strategy<Value = Vec<Utterance>> {
    let call = ("[a-z_]{1,8}", words()).prop_map(|(name, text)| Utterance::Call(name, text));
    let said = prop_oneof![words().prop_map(Utterance::Text), call];
    // Reasoning comes first, because only then do all APIs order it alike.
    (proptest::option::of(words()), proptest::collection::vec(said, 0..5)).prop_map(|(thought, said)| {
        let mut said = said;
        said.sort_by_key(|utterance| matches!(utterance, Utterance::Call(..)));
        thought.map(Utterance::Reasoning).into_iter().chain(said).collect()
    })
}

fn reply(utterances: &[Utterance], ending: &Ending) -> Reply {
    let reply = Reply::new().ending(ending.clone()).usage(300, 20, 100);
    utterances.iter().fold(reply, |reply, utterance| match utterance {
        Utterance::Reasoning(text) => reply.reasoning(text),
        Utterance::Text(text) => reply.text(text),
        Utterance::Call(name, text) => reply.call(name, json!({"text": text})),
    })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        3 => Just(Ending::Natural),
        1 => Just(Ending::Length),
        1 => Just(Ending::Refused(None)),
    ]
}

/// Decodes bytes that are split at these positions.
fn read(api: Api, bytes: &[u8], cuts: &[usize]) -> Vec<ModelEvent> {
    let mut decoder = decoder(api);
    let mut events = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        decoder
            .push(&bytes[from..cut], &mut events)
            .expect("a stream that can be read");
        from = cut;
    }
    decoder.finish(&mut events).expect("a stream that ends");
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_answer_does_not_depend_on_chunk_boundaries(
        said in utterances(),
        ending in ending(),
        deltas in proptest::collection::vec(1usize..7, 0..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
        crlf in any::<bool>(),
        interleaved in any::<bool>(),
    ) {
        let plain = reply(&said, &ending);
        let mut cut = plain.clone().deltas(deltas);
        if crlf {
            cut = cut.crlf();
        }
        if interleaved {
            cut = cut.interleaved();
        }
        let mut answers = Vec::new();
        for api in Api::ALL {
            let whole = AnswerContent::of(&read(api, &transcript(api, &plain), &[]));
            let in_pieces = AnswerContent::of(&read(api, &transcript(api, &cut), &cuts));
            prop_assert_eq!(&whole, &in_pieces);
            answers.push(whole.without_proofs());
        }
        prop_assert_eq!(&answers[0], &answers[1]);
        prop_assert_eq!(&answers[0], &answers[2]);
    }

    #[test]
    fn a_corrupted_stream_is_an_error_or_an_answer(
        said in utterances(),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..12),
        api in prop_oneof![Just(Api::Chat), Just(Api::Responses), Just(Api::Messages)],
    ) {
        let mut bytes = transcript(api, &reply(&said, &Ending::Natural));
        let length = bytes.len();
        for (place, byte) in changes {
            bytes[place % length] = byte;
        }
        let mut events = Vec::new();
        let mut decoder = decoder(api);
        let read = decoder.push(&bytes, &mut events).and_then(|()| decoder.finish(&mut events));
        let ends = events.iter().filter(|event| matches!(event, ModelEvent::End(_))).count();
        prop_assert_eq!(ends, usize::from(read.is_ok()));
        prop_assert_eq!(matches!(events.last(), Some(ModelEvent::End(_))), read.is_ok());
        // A call whose name is lost is emitted at the end, so calls may be out of order. Each is emitted once and
        // before its input.
        let mut begun = std::collections::HashSet::new();
        for event in &events {
            match event {
                ModelEvent::CallStart { index, .. } => prop_assert!(begun.insert(*index)),
                ModelEvent::CallInput { index, .. } => prop_assert!(begun.contains(index)),
                _ => {}
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        api in prop_oneof![Just(Api::Chat), Just(Api::Responses), Just(Api::Messages)],
    ) {
        let mut events = Vec::new();
        let mut decoder = decoder(api);
        let _ = decoder.push(&bytes, &mut events).and_then(|()| decoder.finish(&mut events));
    }
}

/// Splits at every position, and into single bytes.
#[test]
fn every_byte_boundary_gives_the_same_answer() {
    let reply = Reply::new().reasoning("ä").text("€\n").call("ls", json!({"p": "😀"}));
    for api in Api::ALL {
        let bytes = transcript(api, &reply);
        let whole = read(api, &bytes, &[]);
        for cut in 0..=bytes.len() {
            assert_eq!(read(api, &bytes, &[cut]), whole, "{api:?} cut at {cut}");
        }
        for reply in [reply.clone(), reply.clone().crlf()] {
            let bytes = transcript(api, &reply);
            let every: Vec<usize> = (0..bytes.len()).collect();
            assert_eq!(read(api, &bytes, &every), whole, "{api:?} byte by byte");
        }
    }
}

/// A truncated stream is an error. It never panics and never counts as complete.
#[test]
fn a_truncated_stream_is_never_complete() {
    let reply = Reply::new()
        .reasoning("Hm.")
        .text("Words.")
        .call("read", json!({"path": "a"}));
    for api in Api::ALL {
        let bytes = transcript(api, &reply);
        let whole = AnswerContent::of(&read(api, &bytes, &[]));
        for end in 0..bytes.len() {
            let mut decoder = decoder(api);
            let mut events = Vec::new();
            let read = decoder
                .push(&bytes[..end], &mut events)
                .and_then(|()| decoder.finish(&mut events));
            if read.is_ok() {
                let answer = AnswerContent::of(&events);
                assert_eq!(
                    (&answer.parts, &answer.stop),
                    (&whole.parts, &whole.stop),
                    "{api:?} ended at {end}"
                );
            } else {
                assert!(!events.iter().any(|event| matches!(event, ModelEvent::End(_))));
            }
        }
    }
}
