// SPDX-License-Identifier: Apache-2.0
// Takes its own tap's carrier away and gives it back, as fast as it can, without any capability.
// usage: program DEVICE TAP
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int count, char **words) {
  if (count != 3) return 2;
  for (;;) {
    const int fd = open(words[1], O_RDWR);
    struct ifreq request;
    memset(&request, 0, sizeof request);
    strncpy(request.ifr_name, words[2], IFNAMSIZ - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) {
      perror(words[2]);
      return 1;
    }
    for (int flap = 0; flap < 100; flap++) {
      const unsigned int carrier = flap % 2;
      ioctl(fd, TUNSETCARRIER, &carrier);
    }
    close(fd);
  }
}
