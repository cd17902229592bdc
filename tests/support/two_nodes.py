"""A Ray cluster of two nodes on this machine, a core each: `python two_nodes.py`.

Prints its address. On standard input, `kill` takes the second node away without a warning, which
is told; the end of it ends the cluster.
"""

import sys

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    second = nodes.add_node(num_cpus=1)
    print(nodes.address, flush=True)
    for line in sys.stdin:
        if line == "kill\n":
            nodes.remove_node(second, allow_graceful=False)
            print("killed", flush=True)
    nodes.shutdown()
