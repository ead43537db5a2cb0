// SPDX-License-Identifier: Apache-2.0
import type { NetworkSelection } from "@patchbay/api";
import { expect, test } from "vitest";
import { changedAttributes } from "./fixed-attributes.ts";

type Attributes = Partial<NetworkSelection>;

const MAC = "02:00:00:00:00:ab";

test.each<{ name: string; before: Attributes; now: Attributes; want: readonly string[] }>([
  { name: "nothing is asked", before: {}, now: {}, want: [] },
  {
    name: "the same MAC in capitals",
    before: { mac: MAC },
    now: { mac: MAC.toUpperCase() },
    want: [],
  },
  { name: "another MAC", before: { mac: MAC }, now: { mac: "02:00:00:00:00:01" }, want: ["mac"] },
  { name: "a MAC where none was", before: {}, now: { mac: MAC }, want: ["mac"] },
  { name: "no MAC any more", before: { mac: MAC }, now: {}, want: [] },
  {
    name: "other addresses",
    before: { ips: ["10.0.0.1/24"] },
    now: { ips: ["10.0.0.2/24"] },
    want: ["ips"],
  },
  { name: "no addresses any more", before: { ips: ["10.0.0.1/24"] }, now: {}, want: ["ips"] },
  { name: "an empty list of addresses", before: {}, now: { ips: [] }, want: [] },
  {
    name: "another claim",
    before: { "ipam-claim-reference": "one" },
    now: { "ipam-claim-reference": "two" },
    want: ["ipam-claim-reference"],
  },
  {
    name: "a claim that is no text any more",
    before: { "ipam-claim-reference": "one" },
    now: { "ipam-claim-reference": "" },
    want: ["ipam-claim-reference"],
  },
  {
    name: "the same arguments in another order",
    before: { "cni-args": { a: 1, b: [2] } },
    now: { "cni-args": { b: [2], a: 1 } },
    want: [],
  },
  {
    name: "other arguments",
    before: { "cni-args": { a: 1 } },
    now: { "cni-args": { a: 2 } },
    want: ["cni-args"],
  },
  { name: "no arguments", before: {}, now: { "cni-args": {} }, want: [] },
  {
    name: "other ports",
    before: { portMappings: [{ hostPort: 80 }] },
    now: { portMappings: [{ hostPort: 81 }] },
    want: ["portMappings"],
  },
  {
    name: "another bandwidth",
    before: { bandwidth: { ingressRate: 1 } },
    now: { bandwidth: { ingressRate: 2 } },
    want: ["bandwidth"],
  },
  {
    name: "another GUID",
    before: { "infiniband-guid": "24:8a:07:03:00:8d:ae:2e" },
    now: {},
    want: ["infiniband-guid"],
  },
  {
    name: "another way out",
    before: { "default-route": ["10.0.0.1"] },
    now: { "default-route": ["10.0.0.9"] },
    want: ["default-route"],
  },
  { name: "another device", before: { deviceID: "0000:00:03.0" }, now: {}, want: ["deviceID"] },
  {
    name: "what is only preferred",
    before: { "io.patchbay.kept-ips": ["10.0.0.1/24"] },
    now: { "io.patchbay.kept-ips": ["10.0.0.2/24"] },
    want: [],
  },
  {
    name: "several",
    before: { mac: MAC, "default-route": ["10.0.0.1"] },
    now: { mac: "02:00:00:00:00:01", ips: ["10.0.0.1/24"] },
    want: ["mac", "ips", "default-route"],
  },
])("changed attributes: $name", ({ before, now, want }) => {
  const element = { name: "a" };
  expect(changedAttributes({ ...element, ...before }, { ...element, ...now })).toEqual(want);
});
