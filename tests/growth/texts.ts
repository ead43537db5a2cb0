// SPDX-License-Identifier: Apache-2.0
// Parsers of short texts, each with a part that is repeated.
import {
  parsePcieTopology,
  parseRetainedAddresses,
  parseRetainedMacs,
} from "@patchbay/api/annotations";
import {
  parseIp,
  parseMac,
  parseNadName,
  parseQuantity,
  parseSloppyIp,
} from "@patchbay/api/values";
import { splitBundle } from "@patchbay/pki";
import { sanitizeReason } from "../../packages/adapters/hooks/src/messages.ts";
import { parseWarnings } from "../../packages/adapters/kube/src/connection/http.ts";
import { parseLinkCounters } from "../../packages/adapters/os/src/links.ts";
import { parseFilters } from "../../packages/adapters/podnet/src/doctor/surroundings.ts";
import { parseSysctls } from "../../packages/adapters/podnet/src/sysctls.ts";
import { parseResolver } from "../../packages/control-plane/core/src/nics/addresses/resolver.ts";
import { parseGreeting } from "../../packages/control-plane/virt-handler/src/relays/protocol.ts";
import { parseTarget } from "../../packages/standalone/apiserver/src/http/target.ts";
import {
  parseMarkedNames,
  parseRecords,
} from "../../packages/standalone/containerd/src/images/images.ts";
import { readManifest } from "../../packages/standalone/containerd/src/images/measure-image.ts";
import { parseRequest } from "../../packages/standalone/node-runtime/src/kubelet-api/request.ts";
import { expand } from "../../packages/standalone/node-runtime/src/translate/environment.ts";
import { parseServers } from "../../packages/standalone/service-net/src/dns/forwarder.ts";
import { parseDhcpRequests } from "../../packages/adapters/podnet/src/nft/counters.ts";
import type { Subject } from "./subject.ts";

interface TextParser {
  readonly name: string;
  readonly parse: (text: string) => unknown;
  /** Repeated part of the text. */
  readonly unit: string;
  readonly start?: string;
}

const TEXT_PARSERS: readonly TextParser[] = [
  { name: "warnings of the API server", parse: parseWarnings, unit: '299 - "a\\"b", ' },
  { name: "warnings without an end", parse: parseWarnings, unit: '299 - "' },
  { name: "address", parse: parseIp, unit: "1:" },
  { name: "address with zeros", parse: parseSloppyIp, unit: "0." },
  { name: "MAC address", parse: parseMac, unit: "0a:" },
  { name: "quantity", parse: parseQuantity, unit: "1" },
  { name: "quantity with an exponent", parse: parseQuantity, unit: "e1" },
  { name: "name of a network", parse: parseNadName, unit: "a/" },
  { name: "resolv.conf", parse: parseResolver, unit: "nameserver 192.0.2.1\nsearch a b\n" },
  {
    name: "resolvers of a name server",
    parse: (text) => parseServers(text, ""),
    unit: "nameserver\t192.0.2.1 ",
  },
  { name: "sysctls", parse: parseSysctls, unit: "a:b\n" },
  {
    name: "counters of links",
    parse: parseLinkCounters,
    unit: "eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n",
  },
  { name: "filters in an nft ruleset", parse: parseFilters, unit: "\tchain a {\n\t\tdrop\n\t}\n" },
  { name: "DHCP requests in an nft table", parse: parseDhcpRequests, unit: "\t\tip udp dport 67 " },
  { name: "greeting of a relay", parse: parseGreeting, unit: '"' },
  { name: "path of a request", parse: parseTarget, unit: "/a", start: "/apis" },
  {
    name: "path of a kubelet request",
    parse: (text) => parseRequest(text, 0),
    unit: "/a",
    start: "/exec",
  },
  { name: "images of containerd", parse: parseRecords, unit: "a type sha256:0a 1 MiB linux -\n" },
  { name: "marked images of containerd", parse: parseMarkedNames, unit: "a b sha256:0a x\n" },
  {
    name: "image manifest",
    parse: (text) => readManifest(`${text}]}`, "amd64"),
    start: '{"layers":[{}',
    unit: ',{"size":1}',
  },
  { name: "reason of a hook", parse: sanitizeReason, unit: "\u0000a" },
  {
    name: "references in an argument",
    parse: (text) => expand(text, new Map([["A", "b"]])),
    unit: "$(A)",
  },
  { name: "references without an end", parse: (text) => expand(text, new Map()), unit: "$(" },
  {
    name: "retained MACs",
    parse: (text) => parseRetainedMacs(`${text}]`),
    start: "[{}",
    unit: ",{}",
  },
  {
    name: "retained addresses",
    parse: (text) => parseRetainedAddresses(`${text}]`),
    start: "[{}",
    unit: ",{}",
  },
  {
    name: "PCIe topology",
    parse: (text) => parsePcieTopology(`${text}]}`),
    start: '{"interfaces":[{}',
    unit: ",{}",
  },
  { name: "certificates of a bundle", parse: splitBundle, unit: "-----BEGIN CERTIFICATE-----\n" },
];

function toSubject({ name, parse, unit, start = "" }: TextParser): Subject {
  return {
    name,
    limit: 2048,
    prepare: (size) => {
      const text = `${start}${unit.repeat(size)}`;
      return () => parse(text);
    },
  };
}

export const TEXT_SUBJECTS: readonly Subject[] = TEXT_PARSERS.map(toSubject);
