// SPDX-License-Identifier: Apache-2.0
// Where does the kubelet of a node listen, and whom must it prove to be?
import type { Peer } from "../backend/connections.ts";
import { StatusError, notFound } from "../meta/status.ts";
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";

/** Source: Kubernetes kubelet, default of `port`. */
const DEFAULT_PORT = 10250;

/** Kinds of addresses, in the order in which they are taken. Source: kubeadm, --kubelet-preferred-address-types. */
const PREFERRED: readonly string[] = ["InternalIP", "ExternalIP", "Hostname"];

/** The kubelet of a node; `caPem` is the authority of its certificate, which must have the node's name. Throws StatusErrors 404 and 500. */
export function kubeletOf(store: Store, nodeName: string, caPem: string): Peer {
  const node = store.find({ bucket: "/nodes", namespace: "", name: nodeName })?.view();
  if (node === undefined) {
    throw notFound({ group: "", resource: "nodes", kind: "Node" }, nodeName);
  }
  const addresses = listOf(valueAt(node, "status", "addresses"));
  const host = PREFERRED.flatMap((type) =>
    addresses.filter((address) => textAt(address, "type") === type),
  ).map((address) => textAt(address, "address"))[0];
  if (host === undefined) {
    const message = `no preferred addresses found; known addresses: []`;
    throw new StatusError({ code: 500, reason: "", message });
  }
  const port = Number(valueAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0);
  const at = [{ host, port: port > 0 ? port : DEFAULT_PORT }];
  return { at, serverName: nodeName, caPem };
}
