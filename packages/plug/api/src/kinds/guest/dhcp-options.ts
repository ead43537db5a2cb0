// SPDX-License-Identifier: Apache-2.0
// What a guest is told by DHCP beside its addresses. Source: KubeVirt api/core/v1 schema.go, type DHCPOptions.
import { Type } from "../../fields/schema.ts";
import { integer, list, object, text } from "../../fields/notation.ts";

/** One of the options 224 to 254; the value is given as it is. */
export interface PrivateDhcpOption {
  readonly option: number;
  readonly value: string;
}

/** Options that a person asks for. */
export interface DhcpOptions {
  readonly bootFileName?: string;
  readonly tftpServerName?: string;
  readonly ntpServers?: readonly string[];
  readonly privateOptions?: readonly PrivateDhcpOption[];
}

/** Of an iface. */
export const DHCP_OPTIONS = Type.Optional(
  Type.Unsafe<DhcpOptions>(
    object("What the guest is told by DHCP, where the pod gives it its address.", {
      bootFileName: text("Option 67."),
      tftpServerName: text("Option 66."),
      ntpServers: list("Option 42.", text("IPv4 address.")),
      privateOptions: list(
        "Options 224 to 254.",
        object("One option.", { option: integer("Number."), value: text("Value.") }, [
          "option",
          "value",
        ]),
      ),
    }),
  ),
);
