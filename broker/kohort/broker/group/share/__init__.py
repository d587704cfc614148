"""Share groups (KIP-932): records given to whoever asks, until somebody has dealt with them."""
