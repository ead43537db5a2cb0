// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findSharedLink, mayCheckMacs } from "./needs.ts";

test.each([
  { config: { type: "bridge", bridge: "br1" }, want: "bridge br1 0" },
  { config: { type: "cnv-bridge", bridge: "br1", vlan: 100 }, want: "bridge br1 100" },
  { config: { type: "bridge" }, want: "bridge cni0 0" },
  {
    config: { plugins: [{ type: "bridge", bridge: "br1" }, { type: "tuning" }] },
    want: "bridge br1 0",
  },
  { config: { type: "macvlan", master: "eth1" }, want: "link eth1 0" },
  { config: { type: "macvlan" }, want: undefined },
  { config: { type: "ovs", bridge: "br1", vlan: 7 }, want: "ovs br1 7" },
  { config: { type: "host-device", device: "eth1" }, want: undefined },
  { config: { type: "constructor" }, want: undefined },
  { config: { plugins: [] }, want: undefined },
  { config: [], want: undefined },
])("$config shares $want", ({ config, want }) => {
  expect(findSharedLink(JSON.stringify(config))).toBe(want);
});

test.each([undefined, "", "{"])("text %j shares no link", (config) => {
  expect(findSharedLink(config)).toBeUndefined();
});

test.each([
  { config: { type: "bridge", macspoofchk: true }, want: true },
  { config: { plugins: [{ type: "bridge", macspoofchk: true }, { type: "tuning" }] }, want: true },
  { config: { type: "sriov", spoofchk: "on" }, want: true },
  { config: { type: "kube-ovn" }, want: true },
  { config: { type: "ovn-k8s-cni-overlay", topology: "layer2" }, want: true },
  { config: { plugins: [{ type: "cilium-cni" }, { type: "portmap" }] }, want: true },
  { config: { type: "unknown" }, want: true },
  { config: { type: "unknown", macspoofchk: false }, want: false },
  { config: { type: "unknown", spoofchk: "off" }, want: false },
  { config: { type: "bridge" }, want: false },
  { config: { type: "bridge", macspoofchk: "true" }, want: false },
  { config: { type: "sriov", spoofchk: "off" }, want: false },
  { config: { type: "sriov" }, want: false },
  { config: { type: "macvlan" }, want: false },
  { config: { plugins: [{ type: "calico" }, { type: "portmap" }] }, want: false },
  { config: { plugins: "kube-ovn" }, want: false },
  { config: { plugins: ["kube-ovn", null] }, want: false },
  { config: {}, want: false },
  { config: [], want: false },
])("$config may check MACs: $want", ({ config, want }) => {
  expect(mayCheckMacs(JSON.stringify(config))).toBe(want);
});

test.each([undefined, "", "{"])("text %j does not show a check of MACs", (config) => {
  expect(mayCheckMacs(config)).toBe(false);
});
