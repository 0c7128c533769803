# Reads the user's own file in the place of this one. No other file of the host follows.
ZDOTDIR=$__innkeeper_own_zdotdir
if [[ -r $ZDOTDIR/.zlogin ]]; then . "$ZDOTDIR/.zlogin"; fi
