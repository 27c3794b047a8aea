-- After a restore of MySQL from an earlier copy: what the ledger in Kafka knows was sent, and the restored row does not.

-- defines dt_mark_sent 70287dee0ccd
