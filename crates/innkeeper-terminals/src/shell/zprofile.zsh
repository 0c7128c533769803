# Reads the user's own file in the place of this one.
ZDOTDIR=$__innkeeper_own_zdotdir
if [[ -r $ZDOTDIR/.zprofile ]]; then . "$ZDOTDIR/.zprofile"; fi
__innkeeper_own_zdotdir=$ZDOTDIR
ZDOTDIR=$__innkeeper_zdotdir
