//! Rows of elements that are compiled into one loop each, for the graph optimiser to use where a
//! configuration has them: what routers, bridges and measurement boxes have between two decisions.
//!
//! A row is worth its place when nearly all packets go all its way. The longest one that fits is used.

use millrace_core::fuse;

use crate::ethernet::arp_querier::ARPQuerier;
use crate::ethernet::ether_encap::EtherEncap;
use crate::ethernet::ether_mirror::EtherMirror;
use crate::ethernet::ether_rewrite::EtherRewrite;
use crate::ethernet::host_ether_filter::HostEtherFilter;
use crate::ip::check_ip_header::CheckIpHeader;
use crate::ip::check_ip_header2::CheckIpHeader2;
use crate::ip::dec_ip_ttl::DecIpTtl;
use crate::ip::drop_broadcasts::DropBroadcasts;
use crate::ip::fix_ip_src::FixIpSrc;
use crate::ip::get_ip_address::GetIpAddress;
use crate::ip::ip_fragmenter::IpFragmenter;
use crate::ip::ip_gw_options::IpGwOptions;
use crate::ip::mark_ip_header::MarkIpHeader;
use crate::ip::set_ip_checksum::SetIpChecksum;
use crate::ip6::check_ip6_header::CheckIp6Header;
use crate::ip6::dec_ip6_hlim::DecIp6Hlim;
use crate::ip6::get_ip6_address::GetIp6Address;
use crate::ip6::mark_ip6_header::MarkIp6Header;
use crate::standard::annotations::check_paint::CheckPaint;
use crate::standard::annotations::paint::Paint;
use crate::standard::annotations::paint_tee::PaintTee;
use crate::standard::data::strip::Strip;
use crate::standard::data::unstrip::Unstrip;

// From the device to the lookup.
fuse!(Strip, CheckIpHeader);
fuse!(Strip, CheckIpHeader2);
fuse!(Strip, CheckIpHeader, GetIpAddress);
fuse!(Strip, CheckIpHeader2, GetIpAddress);
fuse!(Paint, Strip, CheckIpHeader);
fuse!(Paint, Strip, CheckIpHeader, GetIpAddress);
fuse!(Strip, MarkIpHeader);
fuse!(Strip, MarkIpHeader, GetIpAddress);
fuse!(MarkIpHeader, GetIpAddress);
fuse!(CheckIpHeader, GetIpAddress);
fuse!(HostEtherFilter, Strip, CheckIpHeader);
fuse!(Strip, CheckIp6Header);
fuse!(Strip, CheckIp6Header, GetIp6Address);
fuse!(CheckIp6Header, GetIp6Address);
fuse!(Strip, MarkIp6Header, GetIp6Address);

// From the lookup to the device.
fuse!(DecIpTtl, EtherEncap);
fuse!(DecIpTtl, EtherRewrite);
fuse!(DecIpTtl, Unstrip, EtherRewrite);
fuse!(DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(DropBroadcasts, DecIpTtl, EtherEncap);
fuse!(DropBroadcasts, IpGwOptions, FixIpSrc, DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(DropBroadcasts, PaintTee, IpGwOptions, FixIpSrc, DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(DropBroadcasts, CheckPaint => 1, IpGwOptions, FixIpSrc, DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(DropBroadcasts, PaintTee, IpGwOptions, FixIpSrc, DecIpTtl);
fuse!(DropBroadcasts, CheckPaint => 1, IpGwOptions, FixIpSrc, DecIpTtl);
fuse!(IpGwOptions, FixIpSrc, DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(IpGwOptions, FixIpSrc, DecIpTtl);
fuse!(FixIpSrc, DecIpTtl, IpFragmenter, ARPQuerier);
fuse!(DecIp6Hlim, EtherEncap);
fuse!(DecIp6Hlim, EtherRewrite);
fuse!(DecIp6Hlim, Unstrip, EtherRewrite);

// Between.
fuse!(DecIpTtl, SetIpChecksum);
fuse!(EtherMirror, EtherRewrite);
fuse!(Strip, EtherEncap);
fuse!(Strip, Strip);
