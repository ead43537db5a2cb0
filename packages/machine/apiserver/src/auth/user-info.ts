// SPDX-License-Identifier: Apache-2.0
// How are users shown to others?
import type { Fields } from "../objects/json.ts";
import type { User } from "./user.ts";

/** A user as reviews of tokens and of admission show them. Source: authentication/v1 UserInfo. */
export function userInfo(user: User): Fields {
  return {
    username: user.name,
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    groups: user.groups,
    ...(user.extra === undefined ? {} : { extra: user.extra }),
  };
}
