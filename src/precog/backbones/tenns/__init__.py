"""backbones/tenns"""
