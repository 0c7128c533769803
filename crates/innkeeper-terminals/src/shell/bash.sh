# Reports prompts, commands and the working directory to the host, with OSC 633 and a nonce.
# Read by bash with --init-file, so the user's own start files come first.

__innkeeper_nonce=$INNKEEPER_NONCE
unset INNKEEPER_NONCE
if [ "$INNKEEPER_SHELL_LOGIN" = 1 ]; then
    unset INNKEEPER_SHELL_LOGIN
    if [ -r /etc/profile ]; then . /etc/profile; fi
    if [ -r ~/.bash_profile ]; then
        . ~/.bash_profile
    elif [ -r ~/.bash_login ]; then
        . ~/.bash_login
    elif [ -r ~/.profile ]; then
        . ~/.profile
    fi
elif [ -r ~/.bashrc ]; then
    . ~/.bashrc
fi

# The report of starting commands needs PS0.
if [ "${BASH_VERSINFO[0]}" -lt 4 ] || { [ "${BASH_VERSINFO[0]}" -eq 4 ] && [ "${BASH_VERSINFO[1]}" -lt 4 ]; }; then
    unset __innkeeper_nonce
    return
fi

# Escapes a text for a report.
__innkeeper_escape() {
    local LC_ALL=C text=$1 i char
    if [[ $text != *[[:cntrl:]\;\\]* ]]; then
        printf '%s' "$text"
        return
    fi
    for ((i = 0; i < ${#text}; i++)); do
        char=${text:i:1}
        case $char in
            '\') printf '%s' '\\' ;;
            ';') printf '%s' '\x3b' ;;
            [[:cntrl:]]) printf '\\x%02x' "'$char" ;;
            *) printf '%s' "$char" ;;
        esac
    done
}

# The number of the last line of the history.
__innkeeper_history_number() {
    local line
    line=$(HISTTIMEFORMAT= builtin history 1)
    line=${line#"${line%%[![:space:]]*}"}
    printf '%s' "${line%%[* ]*}"
}

# Runs in a subshell, before a command.
__innkeeper_started() {
    local line number
    number=$(__innkeeper_history_number)
    # A line that was not added to the history is not known.
    if [ "$number" != "$__innkeeper_number" ]; then
        line=$(HISTTIMEFORMAT= builtin history 1)
        line=${line#"${line%%[![:space:]]*}"}
        line=${line#"$number"}
        line=${line#[* ]}
        line=${line# }
        printf '\e]633;E;%s;%s\a' "$(__innkeeper_escape "$line")" "$__innkeeper_nonce"
    fi
    printf '\e]633;C;%s\a' "$__innkeeper_nonce"
}

# Runs before a prompt, first with the exit code of the command.
__innkeeper_prompt() {
    local code=$?
    printf '\e]633;D;%s;%s\a' "$code" "$__innkeeper_nonce"
    printf '\e]633;P;Cwd=%s;%s\a' "$(__innkeeper_escape "$PWD")" "$__innkeeper_nonce"
    __innkeeper_number=$(__innkeeper_history_number)
    # Themes may replace the prompt at any time.
    if [[ $PS1 != *']633;A;'* ]]; then
        PS1="\[\e]633;A;$__innkeeper_nonce\a\]$PS1\[\e]633;B;$__innkeeper_nonce\a\]"
    fi
    return "$code"
}

PS0='$(__innkeeper_started)'"${PS0-}"
if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
    PROMPT_COMMAND=(__innkeeper_prompt "${PROMPT_COMMAND[@]}")
else
    PROMPT_COMMAND="__innkeeper_prompt${PROMPT_COMMAND:+; $PROMPT_COMMAND}"
fi
