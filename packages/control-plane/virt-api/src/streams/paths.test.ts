// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseStreamUrl } from "./paths.ts";

const GROUP = "/apis/subresources.kubevirt.io";
const VMI = "namespaces/ns/virtualmachineinstances/vm";
const VM = "namespaces/ns/virtualmachines/vm";
const OF = { namespace: "ns", name: "vm" };
const TAKES = { preservesSession: false };

test.each<{ url: string; want: object | undefined }>([
  {
    url: `v1/${VMI}/console`,
    want: { ...OF, ...TAKES, isVm: false, kind: "guest", stream: "console" },
  },
  {
    url: `v1alpha3/${VMI}/vnc`,
    want: { ...OF, ...TAKES, isVm: false, kind: "guest", stream: "vnc" },
  },
  {
    url: `v1/${VMI}/vnc?preserveSession=true`,
    want: { ...OF, preservesSession: true, isVm: false, kind: "guest", stream: "vnc" },
  },
  {
    url: `v1/${VMI}/portforward/22`,
    want: { ...OF, isVm: false, kind: "forward", port: 22, protocol: "tcp" },
  },
  {
    url: `v1/${VM}/portforward/53/udp`,
    want: { ...OF, isVm: true, kind: "forward", port: 53, protocol: "udp" },
  },
  {
    url: `v1/${VMI}/capture?interface=a&filter=arp%20or%20icmp`,
    want: { ...OF, isVm: false, kind: "capture", query: "interface=a&filter=arp%20or%20icmp" },
  },
  { url: `v1/${VM}/capture?interface=a`, want: undefined },
  { url: `v1/${VMI}/capture/a`, want: undefined },
  { url: `v1/${VMI}/portforward`, want: undefined },
  { url: `v1/${VMI}/portforward/0`, want: undefined },
  { url: `v1/${VMI}/portforward/65536`, want: undefined },
  { url: `v1/${VMI}/portforward/22/sctp`, want: undefined },
  { url: `v1/${VMI}/portforward/22/tcp/more`, want: undefined },
  { url: `v1/${VM}/console`, want: undefined },
  { url: `v1/${VMI}/console/more`, want: undefined },
  { url: `v1/${VMI}/usbredir`, want: undefined },
  { url: `v2/${VMI}/console`, want: undefined },
  {
    url: `v1/${VMI}/portforward/../../../../victim/virtualmachineinstances/vm/console`,
    want: undefined,
  },
  { url: `v1/${VMI}/portforward/%2e%2e/%2e%2e/vm/console`, want: undefined },
  { url: `v1/${VMI}/../vm2/console`, want: undefined },
  { url: `v1/${VMI}/./console`, want: undefined },
  { url: `v1/${VMI}\\..\\vm2/console`, want: undefined },
  { url: "v1/namespaces/ns/virtualmachineinstances/../console", want: undefined },
  { url: "v1/namespaces/%6es/virtualmachineinstances/vm/console", want: undefined },
  { url: `v1/${VMI}/console#`, want: undefined },
  { url: "", want: undefined },
])("parses $url as $want", ({ url, want }) => {
  expect(parseStreamUrl(`${GROUP}/${url}`)).toEqual(want);
});
