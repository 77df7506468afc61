"""ReqIF, the exchange format of requirements (OMG ReqIF 1.2)."""
