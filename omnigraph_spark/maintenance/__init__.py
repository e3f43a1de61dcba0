"""Looking after the datasets of a graph: indexes, compaction, and what nothing needs any more.

What depends on the number of rows is made of tasks that run anywhere (`running`). They write files
that nothing names, without a lock and for as long as it takes. Then one strict commit per dataset
and one publish make them part of the graph (`settling`), or another writer was first and they go.
"""
