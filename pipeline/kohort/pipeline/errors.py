"""The errors that the pipeline raises on purpose."""


class PipelineError(Exception):
    """The base of everything that the pipeline raises on purpose."""


class OptionError(PipelineError, ValueError):
    """An option that does not exist, is missing, or has a value that it can't have."""


class DataLossError(PipelineError):
    """Records of the range do not exist any more.

    `fail_on_data_loss=false` continues after them instead.
    """


class DamagedSegmentError(PipelineError):
    """A segment holds a damaged record batch, and not at the end of its log."""
