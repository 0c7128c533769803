# Reads the user's own file in the place of this one. ZDOTDIR leads back to the host's files until the last of them.
__innkeeper_zdotdir=$ZDOTDIR
ZDOTDIR=${INNKEEPER_ZDOTDIR:-$HOME}
unset INNKEEPER_ZDOTDIR
if [[ -r $ZDOTDIR/.zshenv ]]; then . "$ZDOTDIR/.zshenv"; fi
__innkeeper_own_zdotdir=$ZDOTDIR
ZDOTDIR=$__innkeeper_zdotdir
