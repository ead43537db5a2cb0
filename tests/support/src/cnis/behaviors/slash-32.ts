// SPDX-License-Identifier: Apache-2.0
// A pod has one address without a subnet, and the gateway 169.254.1.1, which no host has.
// With a permanent neighbor, the node's end does not answer ARP. Source: amazon-vpc-cni-k8s,
// cmd/routed-eni-cni-plugin/driver/driver.go, createVethPairContext.
// With proxy ARP, the node's end answers any request, with the MAC ee:ee:ee:ee:ee:ee. Source: projectcalico/calico,
// cni-plugin/internal/pkg/dataplane/linux/dataplane_linux.go, DoNetworking.
import {
  describeVeth,
  freeAddress,
  ip,
  leaseAddress,
  makeVeth,
  removeVeth,
  resultOf,
  run,
  type Behavior,
  type Call,
  type Veth,
} from "../call.ts";

const GATEWAY = "169.254.1.1";
const PROXY_MAC = "ee:ee:ee:ee:ee:ee";

function setSysctl(namespace: string, key: string, value: string): void {
  const path = `/proc/sys/net/ipv4/${key}`;
  run("ip", ["netns", "exec", namespace, "sh", "-c", `echo ${value} >${path}`]);
}

function addWith(
  call: Call,
  { prefix, mac }: { readonly prefix: string; readonly mac: string },
  prepareGateway: (veth: Veth) => void,
) {
  const address = leaseAddress(call);
  const veth = describeVeth(call, prefix);
  const { node, pod, nic, nodeEnd } = veth;
  makeVeth(veth, mac);
  ip(node, "route", "add", `${address}/32`, "dev", nodeEnd, "scope", "link");
  ip(pod, "addr", "add", `${address}/32`, "dev", nic);
  ip(pod, "route", "add", GATEWAY, "dev", nic, "scope", "link");
  ip(pod, "route", "add", "default", "via", GATEWAY, "dev", nic);
  prepareGateway(veth);
  return resultOf(call, veth, { ips: [{ address: `${address}/32`, interface: 1 }] });
}

function removeWith(prefix: string): (call: Call) => void {
  return (call) => {
    freeAddress(call);
    removeVeth(describeVeth(call, prefix));
  };
}

const NEIGHBOR_MAC = "02:00:00:00:a5:01";

export const PERMANENT_NEIGHBOR: Behavior = {
  add: (call) =>
    addWith(call, { prefix: "eni", mac: NEIGHBOR_MAC }, ({ pod, nic }) => {
      const entry = [GATEWAY, "lladdr", NEIGHBOR_MAC, "dev", nic, "nud", "permanent"];
      ip(pod, "neigh", "replace", ...entry);
    }),
  remove: removeWith("eni"),
};

export const PROXY_ARP: Behavior = {
  add: (call) =>
    addWith(call, { prefix: "cali", mac: PROXY_MAC }, ({ node, nodeEnd }) => {
      setSysctl(node, `conf/${nodeEnd}/proxy_arp`, "1");
      setSysctl(node, `neigh/${nodeEnd}/proxy_delay`, "0");
      setSysctl(node, "conf/all/forwarding", "1");
    }),
  remove: removeWith("cali"),
};
