"""What the pipeline raises on purpose."""


class PipelineError(Exception):
    """The base of everything that the pipeline raises on purpose."""


class OptionError(PipelineError, ValueError):
    """An option that does not exist, is missing, or has a value that it can't have."""


class DataLossError(PipelineError):
    """Records that were to be read are not there any more.

    `fail_on_data_loss=false` reads on behind them instead.
    """


class DamagedSegmentError(PipelineError):
    """A segment holds what is no sound record batch, and not at the end of its log."""
