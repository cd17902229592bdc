"""Studies that the paper lacks: rivals, anchors and controls."""
