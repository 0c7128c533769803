# Reports prompts, commands and the working directory to the host, with OSC 633 and a nonce.
# Read by fish with --init-command, after the user's own configuration.

set -g __innkeeper_nonce $INNKEEPER_NONCE
set -e INNKEEPER_NONCE

# Escapes a text for a report.
function __innkeeper_escape
    set -l text (string replace --all '\\' '\\\\' -- $argv | string replace --all ';' '\x3b' | string join '\x0a')
    string replace --all --regex '[\x00-\x1f]' '' -- $text
end

function __innkeeper_preexec --on-event fish_preexec
    printf '\e]633;E;%s;%s\a' (__innkeeper_escape $argv[1]) $__innkeeper_nonce
    printf '\e]633;C;%s\a' $__innkeeper_nonce
end

function __innkeeper_postexec --on-event fish_postexec
    printf '\e]633;D;%s;%s\a' $status $__innkeeper_nonce
end

function __innkeeper_prompt --on-event fish_prompt
    printf '\e]633;P;Cwd=%s;%s\a' (__innkeeper_escape $PWD) $__innkeeper_nonce
    printf '\e]633;A;%s\a' $__innkeeper_nonce
end
