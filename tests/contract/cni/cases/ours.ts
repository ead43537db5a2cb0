// SPDX-License-Identifier: Apache-2.0
// Our differences from rows, with reasons; every other row holds as it is.
import type { Fields } from "./rows.ts";

/** Our value beside the row's, or the missing feature. */
export type Verdict =
  | { readonly ours: Fields; readonly why: string }
  | { readonly notBuilt: string };

const OWN_WORDS = "the same refusal, in our own words";
const ALONE = "it is one attachment that is refused, by itself: the others of the pod are made";
const STATUS = "what the runtime told of other networks is none of our business";

function accept(...elements: readonly object[]): Fields {
  return { accept: elements };
}

/** Keyed by the row's name. */
export const VERDICTS: Readonly<Record<string, Verdict>> = {
  "empty string is a parser error": {
    ours: accept(),
    why: "an empty annotation requests nothing, like a missing one; the peers have a wrapper for that",
  },
  "trailing comma yields an element with an empty name (peer bug)": {
    ours: { reject: true },
    why: "the intent is ambiguous",
  },
  "empty namespace part falls back to pod namespace": {
    ours: { reject: true },
    why: "the intent is ambiguous",
  },
  "ips with junk": { ours: accept({ name: "n", namespace: "ns1", ips: ["foo"] }), why: ALONE },
  "bad infiniband guid": {
    ours: accept({ name: "n", namespace: "ns1", "infiniband-guid": "1:2" }),
    why: ALONE,
  },
  "hostPort as string": {
    ours: accept({
      name: "n",
      namespace: "ns1",
      portMappings: [{ hostPort: "80", containerPort: 80 }],
    }),
    why: ALONE,
  },
  "ipam-claim-reference known only to the shared client library": {
    ours: accept({ name: "n", namespace: "ns1", "ipam-claim-reference": "vm1.n" }),
    why: "other writers' keys are preserved: rewriting the annotation must not lose them",
  },
  "generated name can collide with an explicit one": {
    ours: { podInterfaces: ["eth0", "net2", "net1"] },
    why: "a requested name is not assigned to another attachment, and both are attached",
  },
  "no file matches": {
    ours: {
      error:
        "NetworkAttachmentDefinition ns1/net9 has no spec.config, and no file in /definitions of the node defines a network named net9; files there define net2",
    },
    why: OWN_WORDS,
  },
  "invalid JSON in spec.config": {
    ours: {
      error:
        "is not a JSON object: Expected property name or '}' in JSON at position 1 (line 1 column 2)",
    },
    why: OWN_WORDS,
  },
  "default route without gw prints the Go nil text (peer bug)": {
    ours: {
      entries: [
        {
          name: "ns1/n",
          interface: "net1",
          mac: "92:79:27:01:7c:cf",
          dns: {},
          ips: ["1.1.1.3"],
        },
      ],
    },
    why: "no gateway is reported when none is known",
  },
  "same result through the dynamic controller: one entry, last interface, all addresses": {
    ours: {
      entries: [
        {
          name: "m",
          interface: "example0",
          mac: "00:AA:BB:CC:DD:01",
          mtu: 1500,
          ips: ["192.0.2.1", "192.0.2.2"],
          dns: { nameservers: ["8.8.8.8"], search: ["example.com"] },
        },
        {
          name: "m",
          interface: "example1",
          mac: "00:AA:BB:CC:DD:02",
          mtu: 1500,
          ips: ["192.0.2.3"],
          dns: { nameservers: ["8.8.8.8"], search: ["example.com"] },
        },
      ],
    },
    why: "as Multus: addresses go to the entry of their interface",
  },
  "address without index goes to the last sandbox interface": {
    ours: {
      entries: [
        { name: "t", interface: "eth0", ips: ["192.0.2.1"], dns: {} },
        { name: "t", interface: "eth1", dns: {} },
      ],
    },
    why: "data without an interface belongs to the requested one",
  },
  "single interface without sandbox: no interface name, default kept": {
    ours: {
      entries: [
        { name: "t", interface: "net1", ips: ["10.244.196.152", "fd10:244::c497"], dns: {} },
      ],
    },
    why: "the requested interface is its name, and one of our networks is never the default one",
  },
  "0.2.0 result through the dynamic controller: entry without interface, never matches again": {
    ours: { entries: [{ name: "ns1/n", interface: "net1", ips: ["10.99.0.11"], dns: {} }] },
    why: "the standard allows the requested name as a substitute",
  },
  "non-matching network keeps the entry": {
    ours: { status: [] },
    why: "a sandbox has one NIC per name, and the journal knows its owner: the entry is older",
  },
  "status name without namespace produces a nonsense DEL (peer bug)": {
    ours: { add: [], del: [] },
    why: STATUS,
  },
  "cluster defaultNetworks entry not in the annotation is unplugged (peer bug)": {
    ours: { add: [], del: [] },
    why: STATUS,
  },
  "host-network pod with annotation": {
    ours: { add: [], del: [], events: ["Warning HostNetwork"] },
    why: OWN_WORDS,
  },
  "DEL fails first, later DEL not attempted": {
    ours: {
      events: ["FailedRemovingInterface net1", "RemovedInterface net0"],
      statusChanged: true,
    },
    why: "a failed attachment does not delay the others",
  },
  "retry budget": {
    ours: { attempts: 5, then: "tried again" },
    why: "no attachment is abandoned: pauses grow to a minute",
  },
  "non-zero exit, silent": { ours: { errorContains: ["exit code 1"], code: 0 }, why: OWN_WORDS },
  "zero exit, garbage stdout on ADD": {
    ours: { errorContains: ["the answer is not a CNI result"] },
    why: OWN_WORDS,
  },
  "text file busy is retried": {
    ours: { retries: "by the loop" },
    why: "a failed attachment is retried after a second, whatever the cause",
  },
  "type with a slash": { ours: { errorContains: ["must be the file name"] }, why: OWN_WORDS },
  "CHECK below 0.4.0": { notBuilt: "CHECK" },
  "CHECK with a corrupt cache": { notBuilt: "CHECK" },
  "ADD stops at the first error, no cache": {
    ours: { executed: ["a", "b"], cacheWritten: false, runtimeMustThen: "DEL" },
    why: "the same: the journal's row stays, and the whole list is DELed",
  },
  "cache path needs all three parts": { notBuilt: "writing libcni's cache (the journal is ours)" },
  "validation: bad container id": {
    ours: { refused: true },
    why: "the journal rejects it before any plugin runs",
  },
  "validation: bad network name": { ours: { refused: true }, why: "the definition is rejected" },
  "validation: interface name of 18 bytes": {
    ours: { refused: true },
    why: "the annotation is rejected",
  },
  "validation: interface name with slash": {
    ours: { refused: true },
    why: "the annotation is rejected",
  },
  "validation: interface name with colon": {
    ours: { refused: true },
    why: "the annotation is rejected",
  },
  "multus delegate, unparsable reply": { notBuilt: "delegating to the daemon of Multus" },
};
