"""Integer programs: operations, tracing, and the datapath that strings them together."""

from approxnorm.program.interval import Interval, WidthError
from approxnorm.program.signal import Node, Program, Signal

__all__ = ["Interval", "Node", "Program", "Signal", "WidthError"]
