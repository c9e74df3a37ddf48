"""Broker's JSON messages over WebSocket, served and dialled (extra ``websocket``)."""
