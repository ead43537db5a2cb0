// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseNetworkDns, parseResolver } from "./resolver.ts";

test.each([
  { name: "nothing", text: "", want: { nameservers: [], search: [] } },
  {
    name: "servers and the last search list",
    text: "# c\nnameserver 10.96.0.10\n nameserver\tfd00::a\nsearch a b\nsearch ns.svc.cluster.local cluster.local.\n",
    want: {
      nameservers: ["10.96.0.10", "fd00::a"],
      search: ["ns.svc.cluster.local", "cluster.local."],
    },
  },
  {
    name: "no invalid servers and no servers that only the pod reaches",
    text: "nameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver x,y\nnameserver",
    want: { nameservers: [], search: [] },
  },
  {
    name: "at most three servers",
    text: "nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4",
    want: { nameservers: ["1.1.1.1", "1.1.1.2", "1.1.1.3"], search: [] },
  },
  {
    name: "no invalid search domains",
    text: `search a,b ok -x ${"a.".repeat(130)}a`,
    want: { nameservers: [], search: ["ok"] },
  },
])("reads from resolv.conf $name", ({ text, want }) => {
  expect(parseResolver(text)).toEqual(want);
});

test.each([
  { name: "none", dns: {}, want: undefined },
  {
    name: "its own settings",
    dns: { nameservers: ["10.9.0.53", "127.0.0.1", 7], search: ["lan.example", "a,b"] },
    want: { nameservers: ["10.9.0.53"], search: ["lan.example"] },
  },
  { name: "no search domains without a server", dns: { search: ["lan.example"] }, want: undefined },
  {
    name: "nothing from a value that is not a list",
    dns: { nameservers: "10.9.0.53" },
    want: undefined,
  },
])("reads a network's DNS settings: $name", ({ dns, want }) => {
  expect(parseNetworkDns(dns)).toEqual(want);
});
