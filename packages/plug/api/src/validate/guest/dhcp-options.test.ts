// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { DhcpOptions } from "../../kinds/guest/dhcp-options.ts";
import { validateVmiSpec } from "../spec.ts";

function fieldsOf(dhcpOptions: DhcpOptions): readonly string[] {
  const spec = {
    domain: { devices: { interfaces: [{ name: "a", bridge: {}, dhcpOptions }] } },
    networks: [{ name: "a", multus: { networkName: "n" } }],
  };
  return validateVmiSpec(spec, "spec").map(({ field }) =>
    field.replace("spec.domain.devices.interfaces[0].dhcpOptions", ""),
  );
}

const TIME_SERVERS = Array.from({ length: 63 }, (_none, at) => `10.0.0.${String(at)}`);

test.each<{ name: string; options: DhcpOptions; want: readonly string[] }>([
  { name: "none", options: {}, want: [] },
  {
    name: "all of them",
    options: {
      bootFileName: "a/b.efi",
      tftpServerName: "10.0.0.1",
      ntpServers: ["10.0.0.2"],
      privateOptions: [
        { option: 224, value: "1" },
        { option: 254, value: "ä,b" },
      ],
    },
    want: [],
  },
  {
    name: "options that are twice, or of others",
    options: {
      privateOptions: [
        { option: 224, value: "a" },
        { option: 224, value: "b" },
        { option: 255, value: "c" },
        { option: 223, value: "d" },
      ],
    },
    want: [".privateOptions[1].option", ".privateOptions[2].option", ".privateOptions[3].option"],
  },
  {
    name: "values that are empty or too long",
    options: {
      privateOptions: [
        { option: 224, value: "" },
        { option: 225, value: "ä".repeat(128) },
      ],
    },
    want: [".privateOptions[0].value", ".privateOptions[1].value"],
  },
  {
    name: "time servers by name or of IPv6",
    options: { ntpServers: ["pool", "fd00::1", "10.0.0.1/24", "10.0.0.1"] },
    want: [".ntpServers[0]", ".ntpServers[1]", ".ntpServers[2]"],
  },
  {
    name: "time servers with leading zeros",
    options: { ntpServers: ["0127.0.0.3", "01.1.1.1"] },
    want: [],
  },
  { name: "time servers that fill option 42", options: { ntpServers: TIME_SERVERS }, want: [] },
  {
    name: "more time servers than option 42 holds",
    options: { ntpServers: [...TIME_SERVERS, "10.1.0.1"] },
    want: [".ntpServers"],
  },
  {
    name: "names that would be two",
    options: { bootFileName: "a,b", tftpServerName: "a b" },
    want: [".bootFileName", ".tftpServerName"],
  },
])("DHCP options: $name", ({ options, want }) => {
  expect(fieldsOf(options)).toEqual(want);
});
